import unittest

import policy


class Policy(unittest.TestCase):
    def test_everything_passes(self):
        question = {"payload": {"call": {"id": "1", "name": "shell", "arguments": {"command": "ls"}}}}
        self.assertIsNone(policy.on_tool_pre_execute(question))


if __name__ == "__main__":
    unittest.main()
