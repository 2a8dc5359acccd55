"""What scripts add to every line of results."""

import argparse
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import result_line  # noqa: E402 (the line above finds it)


class ResultLine(unittest.TestCase):
    def test_adds_what_a_line_is_of(self):
        line = result_line.result_line({"ms": 1.5}, command="a b", commit="c", device="d", seed=7, output=b"abc")
        # SHA-256 of "abc": FIPS 180-2, appendix B.1.
        self.assertEqual(line, {"ms": 1.5, "command": "a b", "commit": "c", "device": "d", "seed": 7,
                                "output_hash": "ba7816bf8f01cfea"})

    def test_names_a_gpu(self):
        line = result_line.result_line({}, command="", commit="c", device="NVIDIA H200", seed=1, output=None)
        self.assertEqual(line["gpu"], "NVIDIA H200")
        self.assertNotIn("device", line)

    def test_has_no_hash_where_there_is_no_output(self):
        line = result_line.result_line({}, command="", commit="c", device="", seed=1, output=None)
        self.assertIsNone(line["output_hash"])


class Commit(unittest.TestCase):
    def options(self, *arguments):
        parser = argparse.ArgumentParser()
        result_line.add_commit_option(parser)
        return parser.parse_args(arguments)

    def test_is_the_one_that_is_given(self):
        self.assertEqual(result_line.commit_of(self.options("--commit", "abc")), "abc")

    def test_is_else_the_noted_one_and_none_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(result_line, "FOLDER", pathlib.Path(folder)):
            with self.assertRaises(SystemExit) as raised:
                result_line.commit_of(self.options())
            self.assertIn("--commit", str(raised.exception))
            pathlib.Path(folder, "commit").write_text("def\n", encoding="utf-8")
            self.assertEqual(result_line.commit_of(self.options()), "def")


if __name__ == "__main__":
    unittest.main()
