"""The plugin of the conformance table in Python: it does what the question's scratchpad tells it to."""

import json
import os
import threading

import grpc
from codedock.plugin.v1 import plugin_pb2, plugin_pb2_grpc
from goplugin import log, serve

PORTS = ["agent/input", "agent/pre-step", "agent/request", "llm/stream", "tools/pre-execute", "tools/post-execute"]
EVENTS = ["run.started", "run.completed", "tool.execution_started", "tool.execution_result", "interop.told"]
NAME = os.environ.get("CODEDOCK_PLUGIN_NAME", "python")
TOOL = f"{NAME}_tool"


class Failure(Exception):
    pass


def encode(value):
    # Without escapes: the payload may not grow on its way back.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer_payload(port, payload, told):
    """Decodes the payload of a port, changes it as told and encodes it again, changed or not."""
    value = json.loads(payload)
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
    return encode(value)


def told_by(reply):
    """The one field of a reply of the host as text."""
    for _, value in reply.ListFields():
        if isinstance(value, bytes):
            return value.decode()
        return value if isinstance(value, str) else ",".join(value)
    return ""


class Plugin(plugin_pb2_grpc.PluginServicer):
    def __init__(self, dial):
        self._dial = dial
        self._host = None

    def Bootstrap(self, request, context):
        self._host = plugin_pb2_grpc.HostStub(self._dial(request.host_server_id))
        self._host.RegisterMethod(
            plugin_pb2.Method(
                name=TOOL,
                prompt="Does what its argument says.",
                parameters_schema=b'{"type":"object","properties":{"directive":{"type":"object"}}}',
                requires_approval=True,
            ),
            timeout=5,
        )
        return plugin_pb2.Manifest(name=NAME, subscriptions=PORTS + EVENTS, capabilities=["conformance-directives"])

    def OnEvent(self, request, context):
        if request.type not in PORTS:
            self._notice(request)
            return request
        if parent := dict(context.invocation_metadata()).get("traceparent"):
            log("info", "traced", port=request.type, traceparent=parent)
        bag = json.loads(request.context or b"{}")
        told = bag.get("directive", {})
        self._act(told, context)
        request.payload = answer_payload(request.type, request.payload, told)
        bag.update(told.get("set", {}))
        for key in told.get("delete", []):
            bag.pop(key, None)
        if "calls" in told:
            bag["called"] = self._call_host(request.session_id, request.run_id, told["calls"])
        request.context = encode(bag)
        request.type = told.get("type") or request.type
        request.reason = told.get("reason", "")
        if "skip_result" in told:
            request.skip_result = encode(told["skip_result"])
        return request

    def ExecuteMethod(self, request, context):
        if request.name != TOOL:
            context.abort(grpc.StatusCode.NOT_FOUND, f'this plugin has no tool "{request.name}"')
        arguments = json.loads(request.arguments)
        told = arguments.get("directive", {})
        try:
            self._act(told, context, aborts=False)
        except Failure as failure:
            return plugin_pb2.MethodResult(error=str(failure))
        output = {
            "arguments": arguments,
            "called": self._call_host(request.session_id, request.run_id, told.get("calls", [])),
            "call_id": request.call_id,
            "idempotency_key": request.idempotency_key,
            "attempt": request.attempt,
        }
        return plugin_pb2.MethodResult(success=True, output=encode(output))

    def _notice(self, envelope):
        payload = envelope.payload.decode()
        log("info", "noticed", event=envelope.type, payload=payload)
        if not envelope.capability:
            return
        key = plugin_pb2.MemoryKey(session_id=envelope.session_id, name=f"noticed {envelope.type}")
        self._host.MemoryUpsert(plugin_pb2.MemoryEntry(key=key, text=payload), timeout=5)

    def _act(self, told, context, aborts=True):
        if told.get("print"):
            print(told["print"])
        if told.get("log"):
            log("warn", told["log"], answer=42)
        if told.get("panic"):
            log("error", f"panic: {told['panic']}")
            os._exit(2)
        if told.get("hang"):
            log("info", "hangs", mark=told["hang"])
            over = threading.Event()
            if context.add_callback(over.set):
                over.wait()
            log("info", "cancelled", mark=told["hang"])
            context.abort(grpc.StatusCode.CANCELLED, "cancelled")
        if told.get("fail"):
            if aborts:
                context.abort(grpc.StatusCode.UNKNOWN, told["fail"])
            raise Failure(told["fail"])

    def _call_host(self, session, run, calls):
        return [self._call_once(call.get("session") or session, run, call) for call in calls]

    def _call_once(self, session, run, call):
        name, text = call.get("name", ""), call.get("text", "")
        key = plugin_pb2.MemoryKey(session_id=session, scope=call.get("scope", ""), name=name)
        value = encode(call["value"]) if "value" in call else b""
        addressed = {"session_id": session, "run_id": run}
        request = {
            "MemoryGet": lambda: key,
            "MemoryUpsert": lambda: plugin_pb2.MemoryEntry(key=key, text=text),
            "AppendNotice": lambda: plugin_pb2.Notice(text=text, **addressed),
            "Complete": lambda: plugin_pb2.CompleteRequest(prompt=name, text=text, **addressed),
            "Emit": lambda: plugin_pb2.Envelope(type=name, payload=value, **addressed),
            "RegisterMethod": lambda: plugin_pb2.Method(name=name, prompt=text, parameters_schema=value),
            "GetActiveTools": lambda: plugin_pb2.ActiveToolsRequest(**addressed),
            "SetActiveTools": lambda: plugin_pb2.SetActiveToolsRequest(names=text.split(","), **addressed),
            "GetSystemPrompt": lambda: plugin_pb2.SystemPromptRequest(**addressed),
            "GetSetting": lambda: plugin_pb2.SettingKey(key=name, **addressed),
            "SetSetting": lambda: plugin_pb2.SettingEntry(key=name, value=value, **addressed),
            "GetSecret": lambda: plugin_pb2.SecretKey(key=name, **addressed),
            "SetSecret": lambda: plugin_pb2.SecretEntry(key=name, value=text, **addressed),
            "ListModels": lambda: plugin_pb2.ModelsRequest(**addressed),
        }[call["method"]]()
        try:
            reply = getattr(self._host, call["method"])(request, timeout=10)
        except grpc.RpcError as error:
            return {"code": error.code().value[0], "text": error.details()}
        return {"code": 0, "text": told_by(reply)}


def main():
    serve(lambda server, dial: plugin_pb2_grpc.add_PluginServicer_to_server(Plugin(dial), server))
