"""The scripts that compare and tabulate whole models: the FLOPs they count, and what they make of lines."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import bench_table  # noqa: E402 (the line above finds it)
import compare_operations  # noqa: E402
import compare_with_transformers  # noqa: E402
import run_mix  # noqa: E402


def line(bench, rate, **others):
    common = {"model": "random:Qwen3-30B-A3B", "layers": 48, "gpus": 1, "experts": "resident", "mode": "gather-all"}
    sizes = {"requests": 32, "context": 512, "tokens": 16384, "mfu": 0.5, "exposed_fraction": 0.0, "commit": "c"}
    return {"bench": bench, "tokens_per_s_per_gpu": rate} | common | sizes | others


class Compare(unittest.TestCase):
    def test_counts_flops_by_hand(self):
        # Two layers of Qwen3-30B-A3B, three sequences of two tokens. Of a token: q, k, v (2048 x 5120), the output
        # (4096 x 2048), the router (2048 x 128), eight experts of three 2048 x 768. Of a sequence: three pairs.
        token = 2 * (2048 * 5120 + 4096 * 2048 + 2048 * 128 + 8 * 3 * 2048 * 768)
        expected = 2 * (6 * token + 3 * 3 * 4 * 32 * 128)
        self.assertEqual(compare_with_transformers.flops_of("Qwen3-30B-A3B", 2, 3, 2), expected)

    def test_sets_engine_and_peer_beside_each_other(self):
        text = compare_with_transformers.table([line("model_peer", 50000.0), line("model", 65000.0)])
        row = text.splitlines()[1].split()
        self.assertEqual(row, ["Qwen3-30B-A3B", "48", "32x512", "50,000", "50.0%", "65,000", "50.0%", "1.30", "1.2"])

    def test_a_cell_without_peer_has_no_ratio(self):
        self.assertIn(" - ", compare_with_transformers.table([line("model", 65000.0)]).splitlines()[1])


    def test_what_could_not_be_measured_is_named_and_what_was_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "lines.jsonl")
            path.write_text('{"kept": 1}\n', encoding="utf-8")
            arguments = ["compare", "--bench", "/bin/false", "--only", "engine", "--commit", "c", "--shapes", "32x512",
                         "--models", "Qwen3-30B-A3B:48", "--json", str(path)]
            errors = io.StringIO()
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stderr(errors), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(compare_with_transformers.main(), 1)
            self.assertEqual(path.read_text(encoding="utf-8"), '{"kept": 1}\n')
        self.assertIn("Qwen3-30B-A3B 32x512 by the engine", errors.getvalue())

    def test_a_benchmark_that_is_not_built_is_an_error_before_the_peer_runs(self):
        arguments = ["compare", "--bench", "/nonexistent", "--commit", "c"]
        with mock.patch.object(sys, "argv", arguments), self.assertRaises(SystemExit) as raised:
            compare_with_transformers.main()
        self.assertIn("/nonexistent", str(raised.exception))


class CompareOperations(unittest.TestCase):
    def test_sets_an_operation_beside_its_peer(self):
        lines = [{"bench": "peer/moe/a", "rate": 500.0, "unit": "TFLOP/s"}, {"bench": "moe/a", "rate": 600.0, "unit": "TFLOP/s"},
                 {"bench": "moe/b", "rate": 3.0, "unit": "TB/s"}]
        rows = [row.split() for row in compare_operations.table(lines).splitlines()]
        self.assertEqual(rows[1:], [["moe/a", "500.0", "600.0", "TFLOP/s", "1.20"], ["moe/b", "-", "3.0", "TB/s", "-"]])

    def test_an_unknown_group_is_an_error(self):
        arguments = ["compare_operations.py", "--commit", "c", "--groups", "moe,nothing"]
        with mock.patch.object(sys, "argv", arguments), self.assertRaises(SystemExit) as raised:
            compare_operations.main()
        self.assertIn("nothing", str(raised.exception))


class RunMix(unittest.TestCase):
    def refusal_of(self, *options):
        errors = io.StringIO()
        arguments = ["run_mix.py", "program", "--model", "m", *options]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            run_mix.arguments()
        return errors.getvalue()

    def test_refuses_what_it_would_not_measure(self):
        self.assertIn("'alon'", self.refusal_of("--runs", "alon"))
        self.assertIn("each once", self.refusal_of("--runs", "cached,cached"))
        self.assertIn("--idle-max is nan", self.refusal_of("--idle-max", "nan"))
        self.assertIn("--longest is -1", self.refusal_of("--longest", "-1"))
        self.assertIn("/nonexistent/x", self.refusal_of("--json", "/nonexistent/x", "--commit", "c"))


class Table(unittest.TestCase):
    def run_main(self, lines, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "lines.jsonl")
            path.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
            out = io.StringIO()
            arguments = ["bench_table.py", str(path)] + [option.replace("@", folder) for option in options]
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
                status = bench_table.main()
            plots = {file.name: file.read_text(encoding="utf-8") for file in pathlib.Path(folder).glob("*.svg")}
            return status, out.getvalue(), plots

    def test_prints_the_ratio_and_leaves_other_benchmarks_out(self):
        status, text, _ = self.run_main([line("model_peer", 50000.0), line("model", 60000.0), {"bench": "moe"}])
        self.assertEqual(status, 0)
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn("1.20", text)

    def test_the_later_line_of_a_cell_counts(self):
        _, text, _ = self.run_main([line("model", 60000.0), line("model", 61000.0)])
        self.assertNotIn("60,000", text)
        self.assertIn("61,000", text)

    def test_draws_a_bar_a_cell_and_a_point_a_step_size(self):
        lines = [line("model_peer", 50000.0), line("model", 60000.0)]
        lines += [line("model_sweep", 1000.0 * n, tokens=n, requests=n, experts="host") for n in (4, 8, 16)]
        _, _, plots = self.run_main(lines, "--plot-shapes", "@/shapes.svg", "--plot-sweep", "@/sweep.svg")
        self.assertEqual(plots["shapes.svg"].count("<rect"), 1 + 2 + 2)  # the ground, the legend, the bars
        self.assertEqual(plots["sweep.svg"].count("<circle"), 3)

    def test_says_when_there_is_nothing(self):
        self.assertEqual(self.run_main([{"bench": "moe"}])[0], 1)


if __name__ == "__main__":
    unittest.main()
