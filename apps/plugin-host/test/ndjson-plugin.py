#!/usr/bin/env python3
"""A plugin over NDJSON written against the protocol alone, with one behaviour per misdeed.

plugin.json "config" says which: {stages, tools, events, handshake, init, start, answers: {stage: answer}, execute}.
"""
import json
import os
import sys
import threading
import time

config = json.loads(os.environ.get("CODEDOCK_PLUGIN_CONFIG") or "{}")
output = threading.Lock()
waiting = {}
cancelled = {}
next_id = 0


def send(frame):
    with output:
        sys.stdout.write(frame if isinstance(frame, str) else json.dumps(frame, ensure_ascii=False))
        sys.stdout.write("\n")
        sys.stdout.flush()


def ask(method, params):
    """Calls the host and waits; answers {"result"} or {"error"}."""
    global next_id
    with output:
        next_id += 1
        number = next_id
    done = threading.Event()
    waiting[number] = (done, {})
    send({"id": number, "method": method, "params": params})
    done.wait(10)
    return waiting.pop(number)[1]


def put(value, spool, always):
    """A value, or a reference to its file."""
    text = json.dumps(value, ensure_ascii=False).encode()
    if not always and len(text) <= 1024 * 1024:
        return value
    with open(os.path.join(spool, "answer"), "wb") as file:
        file.write(text)
    return {"$file": "answer", "bytes": len(text)}


def take(value, spool):
    if isinstance(value, dict) and set(value) == {"$file", "bytes"}:
        with open(os.path.join(spool, value["$file"]), "rb") as file:
            content = file.read()
        assert len(content) == value["bytes"]
        return json.loads(content)
    return value


def log(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def stage_invoke(number, params):
    envelope, spool = params["envelope"], params["spool"]
    answer = config.get("answers", {}).get(params["stage"], {})
    if answer.get("leaves"):
        with open(os.path.join(spool, "left"), "w") as file:
            file.write("x" * 100)
    if answer.get("hang") or take(envelope["payload"], spool).get("content") == answer.get("hangsFor", 0):
        cancelled[number] = threading.Event()
        if cancelled[number].wait(30):
            if answer.get("late"):
                send(answer["late"].replace("$ID", str(number)))
            log("[INFO] cancelled " + str(number))
        return
    for frame in answer.get("before", []):
        send(frame.replace("$ID", str(number)))
    time.sleep(answer.get("sleepMs", 0) / 1000)
    if "exit" in answer:
        os._exit(answer["exit"])
    if "raw" in answer:
        return send(answer["raw"].replace("$ID", str(number)))
    if "error" in answer:
        return send({"id": number, "error": answer["error"]})
    payload = take(envelope["payload"], spool)
    reply = {"type": answer.get("type", ""), "reason": answer.get("reason", "")}
    if "append" in answer:
        payload["content"] += answer["append"]
        reply["payload"] = put(payload, spool, False)
    if "payload" in answer:
        reply["payload"] = put(answer["payload"], spool, answer.get("file", False))
    if "reply" in answer:
        reply.update(answer["reply"])
    if "remember" in answer:
        reply["context"] = {**envelope["context"], **answer["remember"]}
    if answer.get("tell"):
        reply["reason"] = json.dumps({key: envelope.get(key) for key in answer["tell"]})
    if "call" in answer:
        request = {"session_id": envelope["session_id"], "run_id": envelope["run_id"], **answer["call"].get("params", {})}
        reply["reason"] = json.dumps(ask(answer["call"]["method"], request))
    send({"id": number, "result": {"envelope": reply}})


def write_large(spool, name):
    with open(os.path.join(spool, name), "wb") as file:
        file.write(b'"' + b"x" * (1536 * 1024) + b'"')


def answer_late(number, spool):
    """A large result after the cancel: its folder may be gone by now."""
    try:
        write_large(spool, "after")
    except OSError:
        pass
    send({"id": number, "result": {"result": {"$file": "after", "bytes": 1536 * 1024 + 2}}})


def tool_invoke(number, params):
    behaviour = config.get("execute", {})
    if behaviour.get("hang"):
        cancelled[number] = threading.Event()
        if behaviour.get("large"):
            write_large(params["spool"], "before")
            log("[INFO] written " + str(number))
        cancelled[number].wait(30)
        if behaviour.get("large"):
            answer_late(number, params["spool"])
        log("[INFO] cancelled " + str(number))
        return
    if "error" in behaviour:
        return send({"id": number, "error": behaviour["error"]})
    args = take(params["args"], params["spool"])
    result = {"name": params["name"], "args": args, "call": params["tool_call_id"], "key": params["idempotency_key"]}
    send({"id": number, "result": {"result": put(result, params["spool"], behaviour.get("file", False))}})


def start(number, _):
    for stage in config.get("stages", []):
        outcome = ask("stage.register", {"stage": stage})
        if "error" in outcome:
            return send({"id": number, "error": outcome["error"]})
    for tool in config.get("tools", []):
        ask("tool.register", tool)
    if config.get("events"):
        ask("events.subscribe", {"events": config["events"]})
    for frame in config.get("start", []):
        outcome = ask(frame["method"], frame.get("params", {}))
        log("[INFO] start " + json.dumps(outcome))
    send({"id": number, "result": {}})


def event_deliver(number, params):
    envelope = params["envelope"]
    log("[INFO] event " + envelope["type"])
    if "onEvent" in config:
        call = config["onEvent"]
        request = {"session_id": envelope["session_id"], "run_id": envelope["run_id"], **call.get("params", {})}
        log("[INFO] event call " + json.dumps(ask(call["method"], request)))
    if number:
        if envelope["event_seq"] == config.get("refusesSeq"):
            return send({"id": number, "error": "not this one"})
        send({"id": number, "result": {}})


def handle(frame):
    method, number, params = frame["method"], frame.get("id", 0), frame.get("params", {})
    if method == "handshake":
        reply = {"sdk_version": "1.2.3", "plugin_name": params["plugin_name"], "pid": os.getpid(), "version": "7"}
        reply.update(config.get("handshake", {}))
        send({"id": number, "result": reply})
    elif method == "plugin.init":
        if config.get("readsNothing"):
            send({"id": number, "result": {}})
            frame = json.loads(sys.stdin.readline())
            start_thread = threading.Thread(target=start, args=(frame["id"], {}), daemon=True)
            start_thread.start()
            for _ in config.get("stages", []):
                reply = json.loads(sys.stdin.readline())
                done, into = waiting[reply["id"]]
                into.update(reply)
                done.set()
            time.sleep(60)
        send({"id": number, "result": {}})
    elif method == "plugin.start":
        threading.Thread(target=start, args=(number, params), daemon=True).start()
    elif method == "plugin.stop":
        if not config.get("ignoresStop"):
            send({"id": number, "result": {}})
            os._exit(0)
    elif method == "call.cancel":
        if params["call_id"] in cancelled:
            cancelled[params["call_id"]].set()
    elif method == "event.deliver":
        threading.Thread(target=event_deliver, args=(number, params), daemon=True).start()
    elif method == "stage.invoke":
        threading.Thread(target=stage_invoke, args=(number, params), daemon=True).start()
    elif method == "tool.invoke":
        threading.Thread(target=tool_invoke, args=(number, params), daemon=True).start()
    else:
        send({"id": number, "error": "unknown method " + method})


for text in sys.stdin:
    received = json.loads(text)
    if "method" in received:
        handle(received)
    elif received.get("id") in waiting:
        event, target = waiting[received["id"]]
        target.update({key: received[key] for key in ("result", "error") if key in received})
        event.set()
