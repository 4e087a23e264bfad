"""That the scripts of the benches run from any folder, and read their arguments:

    python3 benches/test_script.py
"""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest

from script import one_of, output_of, positive, save

HERE = os.path.dirname(os.path.abspath(__file__))


class Script(unittest.TestCase):
    def test_each_script_runs_from_any_folder(self):
        for folder in ("loss", "peers", "trainer"):
            script = os.path.join(HERE, folder, "run.py")
            with tempfile.TemporaryDirectory() as elsewhere:
                ended = subprocess.run([sys.executable, script, "--help"], cwd=elsewhere, capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), folder)

    def test_arguments_are_names_that_are_known_and_counts(self):
        self.assertEqual(one_of({"a": 1, "b": 2})("b,a"), ["b", "a"])
        for read, text in ((one_of(["a"]), "a,c"), (positive, "0")):
            self.assertRaises(argparse.ArgumentTypeError, read, text)
        self.assertEqual(positive("3"), 3)

    def test_a_process_is_heard_and_its_failure_ends_the_script(self):
        python = lambda code: [sys.executable, "-c", code]
        self.assertEqual(output_of(python("print('heard')")), "heard\n")
        with self.assertRaisesRegex(SystemExit, "(?s)^why.* failed with exit code 3$"):
            output_of(python("import sys; print('why', file=sys.stderr); sys.exit(3)"))

    def test_a_file_is_replaced_whole(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "file")
            for text in ("one", "other"):
                save(path, text)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
            self.assertEqual(os.listdir(directory), ["file"])


if __name__ == "__main__":
    unittest.main()
