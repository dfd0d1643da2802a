"""The policy. HANDLERS says what it is asked about: a function per port, called with the envelope.

A handler answers None to go on unchanged, or members of the answer: {"type": "tools/denied", "reason": "…"}.
"""

VERSION = "0.1.0"
# "config" of plugin.json.
CONFIG = {}


def on_tool_pre_execute(envelope):
    """Lets every call pass; envelope["payload"]["call"] has its "name" and "arguments"."""
    return None


HANDLERS = {"tools/pre-execute": on_tool_pre_execute}
