-- Expands only: programs of the former release go on working on this schema, and read histories whole.

-- Summaries that stand for the older part of a session's history: for every message before (position, event_seq).
CREATE TABLE "context_checkpoints" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID NOT NULL,
    "summary" TEXT NOT NULL,
    "messages" INTEGER NOT NULL,
    "position" BIGINT NOT NULL,
    "event_seq" BIGINT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "context_checkpoints_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "context_checkpoints_session_id_position_event_seq_idx" ON "context_checkpoints"("session_id", "position", "event_seq");
CREATE INDEX "context_checkpoints_run_id_idx" ON "context_checkpoints"("run_id");
ALTER TABLE "context_checkpoints" ADD CONSTRAINT "context_checkpoints_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "context_checkpoints" ADD CONSTRAINT "context_checkpoints_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- As before, and stores a checkpoint behind the messages of its batch.
CREATE OR REPLACE FUNCTION codedock_write(r runs, p_tenant uuid, p_session uuid, p_attempt integer, p_events jsonb, p_changes jsonb,
  p_now timestamptz, OUT first_seq bigint, OUT last_seq bigint, OUT scratchpad jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  v_count integer := jsonb_array_length(p_events);
  v_stored integer;
  v_run jsonb := p_changes->'run';
BEGIN
  UPDATE sessions s SET last_seq = s.last_seq + v_count WHERE s.id = p_session AND s.tenant_id = p_tenant
    RETURNING s.last_seq INTO last_seq;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no session %.', p_session USING ERRCODE = 'CD001', HINT = 'not_found';
  END IF;
  first_seq := last_seq - v_count + 1;

  IF p_changes ? 'turns' THEN
    INSERT INTO turns AS t (id, tenant_id, session_id, run_id, iteration, status, tools, input_tokens, output_tokens,
        finish_reason, restarts, started_at, completed_at)
      SELECT c.id, p_tenant, p_session, r.id, c.iteration, c.status, coalesce(c.tools, o.tools, '[]'),
        coalesce((c.usage->>'inputTokens')::bigint, o.input_tokens, 0),
        coalesce((c.usage->>'outputTokens')::bigint, o.output_tokens, 0),
        coalesce(c."finishReason", o.finish_reason), coalesce(o.restarts, 0) + coalesce(c.restarts, 0), p_now,
        CASE WHEN c.status = 'completed' THEN p_now END
      FROM jsonb_to_recordset(p_changes->'turns') AS c(id uuid, iteration integer, status text, tools jsonb, usage jsonb,
        "finishReason" text, restarts integer)
      LEFT JOIN turns o ON o.id = c.id
      ON CONFLICT (id) DO UPDATE SET status = excluded.status, tools = excluded.tools,
        input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
        finish_reason = excluded.finish_reason, restarts = excluded.restarts, completed_at = excluded.completed_at
      WHERE t.run_id = r.id;
  END IF;

  IF p_changes ? 'messages' THEN
    INSERT INTO messages (id, tenant_id, session_id, run_id, turn_id, role, kind, content, tool_calls, attachments,
        position, event_seq, created_at)
      SELECT m.id, p_tenant, p_session, r.id, m."turnId", m.role, m.kind, m.content, m."toolCalls", m.attachments,
        coalesce(r.position, 0), first_seq + e.ord - 1, p_now
      FROM jsonb_array_elements(p_changes->'messages') AS c(entry),
        jsonb_to_record(c.entry->'message') AS m(id uuid, "turnId" uuid, role text, kind text, content jsonb,
          "toolCalls" jsonb, attachments jsonb),
        jsonb_array_elements(p_events) WITH ORDINALITY AS e(event, ord)
      WHERE e.event->>'eventId' = c.entry->>'eventId';
    GET DIAGNOSTICS v_stored = ROW_COUNT;
    IF v_stored <> jsonb_array_length(p_changes->'messages') THEN
      RAISE EXCEPTION 'A message names no event of its batch.' USING ERRCODE = 'CD001', HINT = 'invariant_broken';
    END IF;
  END IF;

  IF p_changes ? 'checkpoint' THEN
    INSERT INTO context_checkpoints (id, tenant_id, session_id, run_id, summary, messages, position, event_seq, created_at)
      SELECT c.id, p_tenant, p_session, r.id, c.summary, c.messages, m.position, m.event_seq, p_now
      FROM jsonb_to_record(p_changes->'checkpoint') AS c(id uuid, summary text, messages integer, "firstKept" uuid)
      JOIN messages m ON m.id = c."firstKept" AND m.session_id = p_session;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'A checkpoint keeps a message that is not stored.' USING ERRCODE = 'CD001', HINT = 'invariant_broken';
    END IF;
  END IF;

  IF p_changes ? 'calls' THEN
    PERFORM codedock_write_calls(r, p_changes->'calls', p_now);
  END IF;
  IF p_changes ? 'executions' THEN
    PERFORM codedock_write_executions(r, p_changes->'executions', p_now);
  END IF;

  IF v_count > 0 THEN
    INSERT INTO events (session_id, seq, occurred_at, event_id, tenant_id, run_id, turn_id, attempt, type, payload)
      SELECT p_session, first_seq + e.ord - 1, p_now, (e.event->>'eventId')::uuid, p_tenant, r.id,
        (e.event->>'turnId')::uuid, p_attempt, e.event->>'type',
        CASE WHEN e.event#>'{payload,message}' ? 'eventSeq'
          THEN jsonb_set(jsonb_set(e.event->'payload', '{message,eventSeq}', to_jsonb(first_seq + e.ord - 1)),
            '{message,createdAt}', to_jsonb(codedock_time(p_now)))
          ELSE e.event->'payload' END
      FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e(event, ord);
  END IF;

  IF p_changes ? 'records' THEN
    PERFORM codedock_store_records(p_changes->'records', r.id, p_now);
  END IF;

  IF v_run IS NOT NULL THEN
    IF v_run ? 'scratchpad' THEN
      scratchpad := codedock_merge_scratchpad(r, v_run->'scratchpad', p_now);
    END IF;
    UPDATE runs SET
        start = coalesce(v_run->'start', runs.start),
        extension_metadata = coalesce(v_run->'metadata', runs.extension_metadata),
        scratchpad = coalesce(codedock_write.scratchpad, runs.scratchpad),
        input_tokens = runs.input_tokens + coalesce((v_run#>>'{usage,inputTokens}')::bigint, 0),
        output_tokens = runs.output_tokens + coalesce((v_run#>>'{usage,outputTokens}')::bigint, 0),
        turns = coalesce((v_run->>'turns')::integer, runs.turns),
        tool_calls = runs.tool_calls + coalesce((v_run->>'toolCalls')::integer, 0),
        idle_attempts = CASE WHEN (v_run->>'progress')::boolean THEN 0 ELSE runs.idle_attempts END
      WHERE id = r.id;
  END IF;
END
$$;

-- As before, but the history begins with the newest checkpoint, the run's own input is always in it, and how long the run
-- was queued is told.
CREATE OR REPLACE FUNCTION codedock_take_lease(p_run uuid, p_ttl_ms integer) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
  w record;
  v_now timestamptz;
  v_was text;
  v_events jsonb := '[]';
  v_turn turns;
  v_checkpoint context_checkpoints;
BEGIN
  SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
  v_now := codedock_now();
  IF NOT FOUND OR r.status NOT IN ('queued', 'running') OR r.lease_until >= v_now THEN
    RETURN '{"kind": "nothing"}';
  END IF;
  v_was := r.status;
  UPDATE runs SET
      status = 'running',
      lease_token = r.lease_token + 1,
      lease_until = v_now + p_ttl_ms * interval '1 millisecond',
      leased_at = v_now,
      idle_attempts = r.idle_attempts + 1,
      started_at = coalesce(r.started_at, v_now),
      elapsed_ms = r.elapsed_ms + codedock_lease_ms(r, r.lease_until)
    WHERE id = p_run RETURNING * INTO r;
  IF v_was = 'queued' THEN
    SELECT * INTO w FROM codedock_write(r, r.tenant_id, r.session_id, r.lease_token,
      jsonb_build_array(jsonb_build_object('eventId', gen_random_uuid(), 'type', 'run.state_changed', 'payload',
        '{"from": "queued", "to": "running"}'::jsonb)), '{}', v_now);
    SELECT jsonb_agg(codedock_event_view(e)) INTO v_events
      FROM events e WHERE e.session_id = r.session_id AND e.seq = w.first_seq;
  END IF;
  SELECT * INTO v_checkpoint FROM context_checkpoints WHERE session_id = r.session_id AND position <= r.position
    ORDER BY position DESC, event_seq DESC, created_at DESC LIMIT 1;
  SELECT * INTO v_turn FROM turns WHERE run_id = p_run AND status <> 'completed' ORDER BY iteration DESC LIMIT 1;
  RETURN jsonb_build_object(
    'kind', CASE WHEN r.idle_attempts > 5 THEN 'crash_loop' ELSE 'leased' END,
    'events', v_events,
    'trace', codedock_trace_view(r),
    'queuedMs', CASE WHEN v_was = 'queued' THEN greatest(0, round(extract(epoch FROM v_now - r.queued_at) * 1000)) END,
    'snapshot', jsonb_build_object(
        'runId', r.id, 'sessionId', r.session_id, 'tenantId', r.tenant_id, 'attempt', r.lease_token,
        'config', r.config, 'principal', r.principal, 'turns', r.turns, 'toolCalls', r.tool_calls,
        'usage', jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens),
        'scratchpad', r.scratchpad, 'metadata', r.extension_metadata,
        'cancelRequested', r.cancel_requested_at IS NOT NULL, 'elapsedMs', r.elapsed_ms,
        'messages', (SELECT coalesce(jsonb_agg(codedock_message_view(m) ORDER BY m.position, m.event_seq, m.id), '[]')
          FROM messages m WHERE m.session_id = r.session_id AND m.position <= r.position AND m.kind IS NULL
            AND (v_checkpoint.id IS NULL OR (m.position, m.event_seq) >= (v_checkpoint.position, v_checkpoint.event_seq)
              OR m.run_id = r.id AND m.role = 'user')))
      || CASE WHEN v_checkpoint.id IS NULL THEN '{}' ELSE jsonb_build_object('checkpoint', jsonb_build_object(
        'id', v_checkpoint.id, 'summary', v_checkpoint.summary, 'messages', v_checkpoint.messages,
        'createdAt', codedock_time(v_checkpoint.created_at))) END
      -- A first attempt in a new session has nothing to measure.
      || CASE WHEN r.position = (SELECT min(position) FROM messages WHERE session_id = r.session_id) AND r.turns = 0 THEN '{}'
        ELSE coalesce((SELECT jsonb_build_object('measured', jsonb_build_object('messageId', m.id,
            'tokens', t.input_tokens + t.output_tokens))
          FROM messages m JOIN turns t ON t.id = m.turn_id
          WHERE m.session_id = r.session_id AND m.position <= r.position AND m.role = 'assistant'
            AND t.input_tokens > 0 AND (v_checkpoint.id IS NULL OR m.created_at > v_checkpoint.created_at)
          ORDER BY m.position DESC, m.event_seq DESC LIMIT 1), '{}') END
      || CASE WHEN r.start IS NULL THEN '{}' ELSE jsonb_build_object('start', r.start) END
      || CASE WHEN v_turn.id IS NULL THEN '{}' ELSE jsonb_build_object('openTurn',
        jsonb_build_object('id', v_turn.id, 'iteration', v_turn.iteration, 'tools', v_turn.tools, 'calls', (
          SELECT coalesce(jsonb_agg(codedock_call_view(c) ORDER BY c.index), '[]')
          FROM tool_calls c WHERE c.turn_id = v_turn.id))
        || coalesce((SELECT jsonb_build_object('reply', codedock_message_view(m)) FROM messages m
          WHERE m.session_id = r.session_id AND m.turn_id = v_turn.id AND m.role = 'assistant' LIMIT 1), '{}')) END);
END
$$;
