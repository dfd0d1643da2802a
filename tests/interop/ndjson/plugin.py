#!/usr/bin/env python3
"""The plugin of the conformance table over NDJSON, on nothing but Python's own library."""

import json
import os
import sys
import threading

PORTS = ["agent/input", "agent/pre-step", "agent/request", "llm/stream", "tools/pre-execute", "tools/post-execute"]
EVENTS = ["run.started", "run.completed", "tool.execution_started", "tool.execution_result", "interop.told"]
NAME = os.environ.get("CODEDOCK_PLUGIN_NAME", "ndjson")
TOOL = f"{NAME}_tool"
CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "UNIMPLEMENTED": 12,
    "UNAVAILABLE": 14,
}
INLINE = 1024 * 1024


class Failure(Exception):
    pass


def log(level, message, **fields):
    sys.stderr.write(json.dumps({"@level": level, "@message": message, **fields}, ensure_ascii=False) + "\n")
    sys.stderr.flush()


def encode(value):
    # Without escapes: the payload may not grow on its way back.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Connection:
    """The one pipe pair: frames go out whole, answers come back to whoever asked."""

    def __init__(self):
        self._lock = threading.Lock()
        self._last = 0
        self._waiting = {}
        self._open = {}

    def send(self, frame):
        line = encode(frame).encode() + b"\n"
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def ask(self, method, params):
        """Calls the host; answers its result. Raises Failure with the host's text."""
        arrived = threading.Event()
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = answer = {"arrived": arrived}
        self.send({"id": number, "method": method, "params": params})
        if not arrived.wait(10):
            raise Failure("UNAVAILABLE: the host did not answer")
        if "error" in answer:
            raise Failure(answer["error"])
        return answer["result"]

    def run(self, handlers):
        """Reads to the end of stdin; every request is handled in a thread of its own."""
        for line in sys.stdin.buffer:
            frame = json.loads(line)
            method, number, params = frame.get("method"), frame.get("id", 0), frame.get("params", {})
            if method is None:
                answer = self._waiting.pop(number, None)
                if answer is not None:
                    answer.update(frame)
                    answer["arrived"].set()
            elif method == "call.cancel":
                cancelled = self._open.get(params["call_id"])
                if cancelled is not None:
                    cancelled.set()
            else:
                given_up = threading.Event()
                if number:
                    self._open[number] = given_up
                args = (handlers, method, number, params, given_up)
                threading.Thread(target=self._handle, args=args, daemon=True).start()

    def _handle(self, handlers, method, number, params, given_up):
        try:
            if method not in handlers:
                raise Failure(f"unknown method {method}")
            result = handlers[method](params, given_up)
            frame = {"id": number, "result": result}
        except Failure as failure:
            frame = {"id": number, "error": str(failure)}
        self._open.pop(number, None)
        # Nobody waits for an answer to a notification, or to a call that was given up.
        if number and not given_up.is_set():
            self.send(frame)
        if method == "plugin.stop":
            os._exit(0)


def take(value, spool):
    """A value of a request: itself, or what its file in the spool folder holds."""
    if not (isinstance(value, dict) and set(value) == {"$file", "bytes"}):
        return value
    with open(os.path.join(spool, value["$file"]), encoding="utf-8") as file:
        return json.load(file)


def put(value, spool):
    """A value of an answer: itself, or a reference to its file once it is large."""
    content = encode(value).encode()
    if len(content) <= INLINE:
        return value
    with open(os.path.join(spool, "answer"), "wb") as file:
        file.write(content)
    return {"$file": "answer", "bytes": len(content)}


def answered_payload(port, value, told):
    append = told.get("append", "")
    if port == "agent/input":
        value["content"] += append
    elif port in ("agent/pre-step", "agent/request"):
        value["system_prompt"] += append
        member = "hidden" if port == "agent/pre-step" else "messages"
        value[member] = value.get(member, [])[told.get("drop", 0) :] + told.get("add", [])
    change = told.get("change", {})
    if port == "llm/stream":
        value["headers"] = {**value.get("headers", {}), **change.get("headers", {})}
        if "body" in change:
            value["body"] = change["body"]
    elif port == "tools/pre-execute":
        value["call"].update(change)
    elif port == "tools/post-execute":
        value["result"].update(change)
    else:
        value.update(change)
    return value


class Plugin:
    def __init__(self, connection):
        self._connection = connection
        self.handlers = {
            "handshake": self._handshake,
            "plugin.init": lambda params, cancelled: {},
            "plugin.start": self._start,
            "plugin.stop": lambda params, cancelled: {},
            "stage.invoke": self._stage,
            "tool.invoke": self._tool,
            "event.deliver": self._event,
        }

    def _handshake(self, params, cancelled):
        return {
            "sdk_version": params["core_version"],
            "plugin_name": params["plugin_name"],
            "pid": os.getpid(),
            "capabilities": ["conformance-directives"],
        }

    def _start(self, params, cancelled):
        for port in PORTS:
            self._connection.ask("stage.register", {"stage": port})
        self._connection.ask("events.subscribe", {"events": EVENTS})
        self._connection.ask(
            "tool.register",
            {
                "name": TOOL,
                "prompt": "Does what its argument says.",
                "parameters_schema": {"type": "object", "properties": {"directive": {"type": "object"}}},
                "requires_approval": True,
            },
        )
        return {}

    def _stage(self, params, cancelled):
        envelope, spool = params["envelope"], params["spool"]
        bag = take(envelope["context"], spool)
        told = bag.get("directive", {})
        self._act(told, cancelled)
        reply = {"type": told.get("type", ""), "reason": told.get("reason", "")}
        reply["payload"] = put(answered_payload(params["stage"], take(envelope["payload"], spool), told), spool)
        bag.update(told.get("set", {}))
        for key in told.get("delete", []):
            bag.pop(key, None)
        if "calls" in told:
            bag["called"] = self._call_host(envelope["session_id"], envelope["run_id"], told["calls"])
        reply["context"] = bag
        if "skip_result" in told:
            reply["skip_result"] = told["skip_result"]
        return {"envelope": reply}

    def _tool(self, params, cancelled):
        if params["name"] != TOOL:
            raise Failure(f'this plugin has no tool "{params["name"]}"')
        arguments = take(params["args"], params["spool"])
        told = arguments.get("directive", {})
        self._act(told, cancelled)
        output = {
            "arguments": arguments,
            "called": self._call_host(params["session_id"], params["run_id"], told.get("calls", [])),
            "call_id": params["tool_call_id"],
            "idempotency_key": params["idempotency_key"],
            "attempt": params["attempt"],
        }
        return {"result": put(output, params["spool"])}

    def _event(self, params, cancelled):
        envelope = params["envelope"]
        payload = encode(envelope["payload"])
        log("info", "noticed", event=envelope["type"], payload=payload)
        if envelope["capability"]:
            entry = {"session_id": envelope["session_id"], "name": f"noticed {envelope['type']}", "text": payload}
            self._connection.ask("memory.upsert", entry)

    def _act(self, told, cancelled):
        if told.get("log"):
            log("warn", told["log"], answer=42)
        if told.get("panic"):
            log("error", f"panic: {told['panic']}")
            os._exit(2)
        if told.get("hang"):
            log("info", "hangs", mark=told["hang"])
            cancelled.wait()
            log("info", "cancelled", mark=told["hang"])
        if told.get("fail"):
            raise Failure(told["fail"])

    def _call_host(self, session, run, calls):
        return [self._call_once(call.get("session") or session, run, call) for call in calls]

    def _call_once(self, session, run, call):
        name, text, value = call.get("name", ""), call.get("text", ""), call.get("value")
        about = {"session_id": session, "run_id": run}
        method, params = {
            "MemoryGet": ("memory.get", {"session_id": session, "name": name}),
            "MemoryUpsert": ("memory.upsert", {"session_id": session, "name": name, "text": text}),
            "AppendNotice": ("io.appendNotice", {"text": text, **about}),
            "Complete": ("llm.complete", {"prompt": name, "text": text, **about}),
            "RegisterMethod": ("tool.register", {"name": name, "prompt": text, "parameters_schema": value}),
            "GetSetting": ("settings.get", {"key": name, **about}),
            "SetSetting": ("settings.set", {"key": name, "value": value, **about}),
            "GetSecret": ("settings.getSecret", {"key": name, **about}),
            "SetSecret": ("settings.setSecret", {"key": name, "value": text, **about}),
            "ListModels": ("llm.listSources", about),
        }[call["method"]]
        try:
            result = self._connection.ask(method, params)
        except Failure as failure:
            code, _, reason = str(failure).partition(": ")
            return {"code": CODES.get(code, 2), "text": reason or str(failure)}
        if "models" in result:
            return {"code": 0, "text": ",".join(result["models"])}
        told = result.get("text", result.get("value", ""))
        return {"code": 0, "text": told if isinstance(told, str) else encode(told)}


connection = Connection()
connection.run(Plugin(connection).handlers)
