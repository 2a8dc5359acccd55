"""policy_table.py on a stand-in for `zeroprefill simulate` that answers with figures made up by hand."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "policy_table.py"

# Ours takes 20 s; least-tokens is faster on two ranks, vllm never, round-robin as fast.
STAND_IN = """#!{python}
import json, sys
argv = sys.argv[1:]
value = lambda name: argv[argv.index(name) + 1]
if "--trace" in argv and not value("--trace").startswith("/traces/"):
    sys.exit("no such trace: " + value("--trace"))
seconds = {{"least-tokens": 16.0 if value("--ranks") == "2" else 24.0, "vllm": 25.0}}.get(value("--policy"), 20.0)
print(json.dumps({{"makespan_seconds": seconds, "hit_rate": 0.25, "hit_rate_bound": 0.5, "computed_tokens": 1500000,
                  "load_spread": 1.25, "tokens_per_second": 2e6 / seconds, "argv": argv}}))
"""


class PolicyTable(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = pathlib.Path(self.folder.name, "stand_in")
        self.program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
        self.program.chmod(0o755)
        self.lines = pathlib.Path(self.folder.name, "lines.jsonl")

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, str(TOOL), str(self.program), *arguments], capture_output=True, text=True)

    def test_marks_and_lists_losses(self):
        out = self.run_tool("paper", "--ranks", "1,2", "--jobs", "3").stdout.splitlines()
        self.assertEqual(out[0], "| workload | ranks | bound | prefix-saturation | round-robin | vllm | least-tokens"
                                 " | shortest-prefill |")
        self.assertEqual(out[1].count("---"), 8)
        rest = " · 25.0 % · 1.50M · 1.25"
        self.assertEqual(out[2], f"| paper | 1 | 50.0 % | 20.0{rest} | 20.0{rest} | 25.0{rest} | 24.0{rest} | 20.0{rest} |")
        self.assertEqual(out[3], f"| paper | 2 | 50.0 % | 20.0{rest} | 20.0{rest} | 25.0{rest} | 16.0*{rest} | 20.0{rest} |")
        self.assertIn("1 of 8 comparisons", "\n".join(out))
        self.assertEqual(out[-1], "- paper, 2 ranks: 25.00 % longer than least-tokens (20.00 s, 16.00 s)")

    def test_what_makes_a_workload_is_said_in_its_name(self):
        finished = self.run_tool("paper", "--ranks", "1", "--", "--model", "m", "--seed", "3")
        self.assertEqual(finished.returncode, 2)
        self.assertIn("--seed after --", finished.stderr)

    def test_lines_that_cannot_be_written_are_an_error_before_anything_runs(self):
        finished = self.run_tool("paper", "--ranks", "1", "--json", "/nonexistent/x", "--commit", "c")
        self.assertEqual((finished.returncode, finished.stdout), (2, ""))
        self.assertIn("/nonexistent/x", finished.stderr)

    def test_says_so_when_there_is_no_loss(self):
        self.assertTrue(self.run_tool("paper", "--ranks", "1").stdout.endswith("in 0 of 4 comparisons.\n"))

    def test_writes_a_line_a_cell_that_names_no_folder(self):
        self.run_tool("/traces/some/calls.jsonl:share=0.1:shuffled", "--ranks", "4", "--json", str(self.lines), "--commit", "abc1234", "--",
                      "--model", "M")
        lines = [json.loads(text) for text in self.lines.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([line["policy"] for line in lines],
                         ["prefix-saturation", "round-robin", "vllm", "least-tokens", "shortest-prefill"])
        line = lines[2]
        self.assertEqual(line["command"], "zeroprefill simulate --trace calls.jsonl --share 0.1 --order shuffled --seed 1"
                                          " --ranks 4 --policy vllm --model M")
        self.assertEqual((line["bench"], line["workload"], line["order"], line["ranks"]),
                         ("policy_table", "calls:share=0.1", "shuffled", 4))
        self.assertEqual((line["makespan_seconds"], line["tokens_per_s"], line["hit_rate"]), (25.0, 80000.0, 0.25))
        self.assertEqual((line["seed"], line["device"], line["commit"]), (1, "none: virtual time", "abc1234"))
        self.assertNotIn("/", json.dumps(lines))

    def test_a_failed_simulation_is_told_and_fails(self):
        run = self.run_tool("/elsewhere/x.csv", "--ranks", "1")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("no such trace: /elsewhere/x.csv", run.stderr)

    def test_refuses_what_it_does_not_know(self):
        self.assertIn("paper:sorted: 'sorted' is none of", self.run_tool("paper:sorted").stderr)
        self.assertIn("--ranks is '1,x'", self.run_tool("paper", "--ranks", "1,x").stderr)
        self.assertIn("--jobs is 0", self.run_tool("paper", "--jobs", "0").stderr)


if __name__ == "__main__":
    unittest.main()
