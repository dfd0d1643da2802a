# Answers a question: {} goes on unchanged, {type: "tools/denied", reason: "…"} refuses.
.params.envelope.payload.call as $call
| {}
