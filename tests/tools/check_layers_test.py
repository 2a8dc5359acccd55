"""Proves that tools/check_layers.py catches includes against the arrows, and lets the others pass."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import check_layers  # noqa: E402 (the line above finds it)


def run(files):
    """Runs the script's main on a tree of {path: text}; returns its exit status and what it wrote to stderr."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        errors = io.StringIO()
        with mock.patch.object(sys, "argv", ["check_layers.py", root]), contextlib.redirect_stderr(errors), \
                contextlib.redirect_stdout(io.StringIO()):
            return check_layers.main(), errors.getvalue()


class CheckLayers(unittest.TestCase):
    def allows(self, file, include):
        status, errors = run({file: f"#pragma once\n#include {include}\n"})
        self.assertEqual((status, errors), (0, ""), f"{file} including {include}")

    def refuses(self, file, include, reason):
        status, errors = run({file: f"#pragma once\n  #  include {include}\n"})
        self.assertEqual(status, 1, f"{file} including {include}")
        self.assertIn(f"{file}:2: ", errors)
        self.assertIn(reason, errors)

    def test_allows_the_arrows(self):
        self.allows("src/zp/cache/block_pool.h", '"zp/cache/block_hash.h"')
        self.allows("src/zp/cache/block_pool.h", '"zp/base/check.h"')
        self.allows("src/zp/schedule/router.cpp", '"zp/cache/block_table.h"')
        self.allows("src/zp/schedule/cost.cpp", '"zp/shape/model_config.h"')
        self.allows("src/zp/expert/slot_ring.cpp", '"zp/model/expert_source.h"')
        self.allows("src/zp/simulate/simulator.cpp", '"zp/schedule/policy.h"')
        self.allows("src/zp/engine/engine.cpp", '"zp/expert/slot_ring.h"')
        self.allows("src/zp/engine/engine.cpp", '"zeroprefill/engine.h"')
        self.allows("src/zp/task/task.cpp", '"zp/tokenizer/tokenizer.h"')
        self.allows("apps/zeroprefill/run.cpp", '"zp/task/task.h"')
        self.allows("apps/zeroprefill/run.cpp", '"zeroprefill/engine.h"')
        self.allows("apps/zeroprefill/plan.cpp", '"zp/plan/capacity_plan.h"')
        self.allows("src/zp/plan/capacity_plan.cpp", '"zp/schedule/saturation.h"')
        self.allows("src/zp/base/check.h", "<vector>")

    def test_refuses_what_lies_above(self):
        self.refuses("src/zp/base/check.h", '"zp/cache/block_pool.h"', "base may not include cache")
        self.refuses("src/zp/cache/block_pool.h", '"zp/schedule/router.h"', "cache may not include schedule")
        self.refuses("src/zp/device/stream.h", '"zp/tensor/view.h"', "device may not include tensor")
        self.refuses("src/zp/model/weights.cpp", '"zp/expert/slot_ring.h"', "model may not include expert")
        self.refuses("src/zp/tokenizer/bpe.cpp", '"zp/task/task.h"', "tokenizer may not include task")
        self.refuses("src/zp/engine/engine.cpp", '"zp/server/server.h"', "engine may not include server")

    def test_keeps_device_tensor_and_ops_out_of_cache_and_schedule(self):
        for module in ("cache", "schedule", "shape", "simulate"):
            for below in ("device/stream.h", "tensor/view.h", "ops/matmul.h"):
                self.refuses(f"src/zp/{module}/file.cpp", f'"zp/{below}"', f"{module} may not include")

    def test_keeps_programs_and_servers_on_the_public_interface(self):
        self.refuses("apps/zeroprefill/run.cpp", '"zp/engine/engine_impl.h"', "apps may not include engine")
        self.refuses("src/zp/simulate/fleet.cpp", '"zp/plan/capacity_plan.h"', "simulate may not include plan")
        self.refuses("src/zp/plan/capacity_plan.cpp", '"zp/expert/placement.h"', "plan may not include expert")
        self.refuses("src/zp/server/server.cpp", '"zp/engine/engine_impl.h"', "server may not include engine")
        self.refuses("include/zeroprefill/engine.h", '"zp/engine/engine_impl.h"', "include may not include engine")
        self.refuses("src/zp/schedule/router.cpp", '"zeroprefill/engine.h"', "may not include the public interface")

    def test_lets_only_factories_and_backends_name_a_backend(self):
        self.allows("src/zp/device/factory.cpp", '"zp/device/cpu/cpu_device.h"')
        self.allows("src/zp/ops/factory.cpp", '"zp/ops/cuda/kernels.h"')
        self.allows("src/zp/device/cpu/cpu_stream.cpp", '"zp/device/cpu/cpu_device.h"')
        self.allows("src/zp/ops/cpu/matmul.cpp", '"zp/device/cpu/thread_pool.h"')
        self.allows("src/zp/ops/cuda/matmul.cu", '"zp/device/cuda/stream.h"')
        self.allows("src/zp/ops/reference/dense.cpp", '"zp/device/cpu/cpu_stream.h"')
        reason = "only the factories and"
        self.refuses("src/zp/device/stream.cpp", '"zp/device/cpu/cpu_device.h"', reason)
        self.refuses("src/zp/ops/matmul.cpp", '"zp/ops/cpu/matmul.h"', reason)
        self.refuses("src/zp/ops/cpu/matmul.cpp", '"zp/ops/cuda/matmul.h"', reason)
        self.refuses("src/zp/ops/reference/dense.cpp", '"zp/ops/cpu/matmul.h"', reason)
        self.refuses("src/zp/ops/reference/dense.cpp", '"zp/device/cuda/stream.h"', reason)
        self.refuses("src/zp/engine/worker.cpp", '"zp/device/cuda/cuda_device.h"', reason)
        self.refuses("src/zp/model/factory.cpp", '"zp/ops/cpu/matmul.h"', reason)

    def test_refuses_includes_it_cannot_place(self):
        self.refuses("src/zp/cache/block_pool.h", '"block_hash.h"', "from src/")
        self.refuses("src/zp/cache/block_pool.h", '"../schedule/router.h"', "from src/")
        self.refuses("src/zp/cache/block_pool.h", '"zp/nowhere/file.h"', "there is no module nowhere")
        self.refuses("src/zp/cache/block_pool.h", "<zp/schedule/router.h>", "cache may not include schedule")

    def test_refuses_a_folder_that_is_no_module(self):
        status, errors = run({"src/zp/misc/file.h": ""})
        self.assertEqual(status, 1)
        self.assertIn("misc is no module", errors)

    def test_reports_every_violation(self):
        status, errors = run({"src/zp/cache/a.h": '#include "zp/ops/a.h"\n#include "zp/device/b.h"\n'})
        self.assertEqual(status, 1)
        self.assertEqual(len(errors.splitlines()), 2)

    def test_fails_when_there_is_nothing_to_check(self):
        self.assertEqual(run({})[0], 1)


if __name__ == "__main__":
    unittest.main()
