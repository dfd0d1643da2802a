"""Serves policy.py to CodeDock: one JSON object a line on stdin and stdout, the log on stderr."""

import json
import sys

import policy


def send(frame):
    sys.__stdout__.write(json.dumps(frame, separators=(",", ":")) + "\n")
    sys.__stdout__.flush()


def member(params, name, holder):
    """A value of a request; one over 1 MiB lies in a file of the request's folder."""
    value = holder.get(name)
    if isinstance(value, dict) and "$file" in value:
        with open(f"{params['spool']}/{value['$file']}", encoding="utf-8") as file:
            return json.load(file)
    return value


def handle(method, params):
    """The result of a request. What it raises becomes an error, which fails the gate."""
    if method == "handshake":
        return {
            "sdk_version": params["core_version"],
            "plugin_name": params["plugin_name"],
            "version": policy.VERSION,
        }
    if method == "plugin.init":
        policy.CONFIG.update(params["config"])
        return {}
    if method == "plugin.start":
        for number, port in enumerate(policy.HANDLERS, start=1):
            # An own request; nothing else arrives before its answer, a line without "method".
            send({"id": number, "method": "stage.register", "params": {"stage": port}})
            answer = json.loads(sys.stdin.readline())
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return {}
    if method == "stage.invoke":
        envelope = params["envelope"]
        envelope["payload"] = member(params, "payload", envelope)
        return {"envelope": policy.HANDLERS[envelope["type"]](envelope) or {}}
    if method == "plugin.stop":
        return {}
    raise RuntimeError(f"unknown method {method}")


def main():
    # The real stdout belongs to the protocol.
    sys.stdout = sys.stderr
    for line in sys.stdin:
        frame = json.loads(line)
        number = frame.get("id", 0)
        if not number or "method" not in frame:
            continue
        try:
            send({"id": number, "result": handle(frame["method"], frame.get("params", {}))})
        except Exception as error:  # noqa: BLE001 - whatever went wrong is told to the host
            print(f"[ERROR] {error!r}", flush=True)
            send({"id": number, "error": repr(error)})
        if frame["method"] == "plugin.stop":
            break


if __name__ == "__main__":
    if sys.stdin.isatty():
        sys.exit("This is a CodeDock plugin. It is started by the plugin-host, not by hand; try: codedock plugin test .")
    main()
