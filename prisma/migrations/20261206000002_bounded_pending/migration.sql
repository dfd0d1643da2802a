-- Expands only: programs of the former release go on working on this schema.

-- Requests of a tenant that each gateway answers a second; null: the installation's default.
ALTER TABLE "tenants" ADD COLUMN "requests_per_second" INTEGER;
ALTER TABLE "tenants" ADD CONSTRAINT "tenants_requests_per_second" CHECK ("requests_per_second" > 0);

-- As before, and refuses to let more runs wait than `limits` allows; without `limits` any number may.
CREATE OR REPLACE FUNCTION codedock_accept(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_tenant uuid := p_input->>'tenantId';
  v_session uuid := p_input->>'sessionId';
  v_on_busy text := p_input->>'onBusy';
  v_limit record;
  v_archived timestamptz;
  v_last_seq bigint;
  v_active runs;
  v_active_now uuid;
  v_interrupted uuid;
  v_busy boolean;
  v_now timestamptz;
  r runs;
  w record;
  v_result jsonb;
BEGIN
  SELECT * INTO v_limit FROM codedock_lock_tenant(v_tenant);
  IF v_on_busy = 'interrupt' THEN
    SELECT * INTO v_active FROM runs WHERE session_id = v_session AND tenant_id = v_tenant
      AND status IN ('queued', 'running', 'waiting_approval') FOR NO KEY UPDATE;
  END IF;
  SELECT archived_at, last_seq INTO v_archived, v_last_seq FROM sessions
    WHERE id = v_session AND tenant_id = v_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no session %.', v_session USING ERRCODE = 'CD001', HINT = 'not_found';
  ELSIF v_archived IS NOT NULL THEN
    RAISE EXCEPTION 'Session % is archived and takes no input; create another.', v_session
      USING ERRCODE = 'CD001', HINT = 'session_archived';
  END IF;
  -- From here on nothing changes whether this session is busy.
  SELECT id INTO v_active_now FROM runs
    WHERE session_id = v_session AND status IN ('queued', 'running', 'waiting_approval');
  IF v_on_busy = 'interrupt' AND v_active_now IS DISTINCT FROM v_active.id THEN
    RAISE EXCEPTION 'The session''s active run changed.' USING ERRCODE = 'CD002';
  END IF;
  v_busy := v_active_now IS NOT NULL OR EXISTS (SELECT 1 FROM runs WHERE session_id = v_session AND status = 'pending');
  IF v_busy AND v_on_busy = 'reject' THEN
    RAISE EXCEPTION 'Session % has a run that is not over; wait for it, or send onBusy "enqueue" or "interrupt".', v_session
      USING ERRCODE = 'CD001', HINT = 'session_busy';
  END IF;
  -- What waits is bounded; only a run that would wait is counted for.
  IF v_busy AND (SELECT count(*) FROM (SELECT 1 FROM runs WHERE session_id = v_session AND status = 'pending'
      LIMIT (p_input#>>'{limits,pendingPerSession}')::bigint) AS p) >= (p_input#>>'{limits,pendingPerSession}')::bigint THEN
    RAISE EXCEPTION 'Session % has as many pending runs as it may have (%); send this again when some have ended.',
      v_session, p_input#>>'{limits,pendingPerSession}' USING ERRCODE = 'CD001', HINT = 'rate_limited';
  ELSIF (v_busy OR v_limit.in_flight >= v_limit.cap)
      AND (SELECT count(*) FROM (SELECT 1 FROM runs WHERE tenant_id = v_tenant AND status = 'pending'
        LIMIT (p_input#>>'{limits,pendingPerTenant}')::bigint) AS p) >= (p_input#>>'{limits,pendingPerTenant}')::bigint THEN
    RAISE EXCEPTION 'The tenant has as many pending runs as it may have (%); send this again when some have ended.',
      p_input#>>'{limits,pendingPerTenant}' USING ERRCODE = 'CD001', HINT = 'rate_limited';
  END IF;
  v_now := codedock_now();
  IF v_active.id IS NOT NULL THEN
    UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, v_now),
        cancel_requested_by = coalesce(cancel_requested_by, p_input#>>'{principal,key}'),
        cancel_reason = coalesce(cancel_reason, 'interrupted')
      WHERE id = v_active.id;
    v_interrupted := v_active.id;
  END IF;

  INSERT INTO runs (id, tenant_id, session_id, status, agent, mode, config, principal, metadata, scratchpad, on_busy,
      position, doorbell, rung_at, traceparent, tracestate, created_by, request_id, first_seq, created_at, queued_at)
    SELECT (p_input->>'runId')::uuid, v_tenant, v_session, q.status, p_input#>>'{config,name}', p_input#>>'{config,mode}',
      p_input->'config', p_input->'principal', p_input->'metadata', p_input->'scratchpad', v_on_busy,
      nextval('codedock_run_position'), (q.status = 'queued')::integer, CASE WHEN q.status = 'queued' THEN v_now END,
      p_input#>>'{trace,traceparent}', p_input#>>'{trace,tracestate}', p_input->>'createdBy', p_input->>'requestId',
      v_last_seq + 1, v_now, CASE WHEN q.status = 'queued' THEN v_now END
    FROM (SELECT CASE WHEN v_busy OR v_limit.in_flight >= v_limit.cap THEN 'pending' ELSE 'queued' END AS status) AS q
    RETURNING * INTO r;
  SELECT * INTO w FROM codedock_write(r, v_tenant, v_session, NULL,
    jsonb_build_array(jsonb_build_object('eventId', p_input->>'eventId', 'type', 'run.created', 'payload',
      jsonb_build_object('status', r.status, 'agent', r.agent, 'message', p_input->'message', 'onBusy', v_on_busy))),
    jsonb_build_object('messages', jsonb_build_array(
        jsonb_build_object('message', p_input->'message', 'eventId', p_input->>'eventId')))
      || CASE WHEN jsonb_array_length(p_input->'records') = 0 THEN '{}'
         ELSE jsonb_build_object('records', p_input->'records') END,
    v_now);
  IF v_limit.cap IS NOT NULL AND r.status = 'queued' THEN
    UPDATE tenants SET in_flight = in_flight + 1 WHERE id = v_tenant;
    v_limit.in_flight := v_limit.in_flight + 1;
  END IF;

  v_result := jsonb_build_object('run', codedock_run_view(r, w.last_seq), 'events', (
      SELECT jsonb_agg(codedock_event_view(e)) FROM events e WHERE e.session_id = v_session AND e.seq = w.first_seq))
    || CASE WHEN r.status = 'queued' THEN jsonb_build_object('ring', codedock_ring_view(r, v_limit.in_flight))
       ELSE '{}' END
    || CASE WHEN v_interrupted IS NULL THEN '{}' ELSE jsonb_build_object('interrupted', v_interrupted) END;
  IF p_input ? 'idempotency' THEN
    PERFORM codedock_complete_claim(v_tenant, p_input->'idempotency',
      (p_input#>'{idempotency,body}') || jsonb_build_object('run', v_result->'run'));
  END IF;
  RETURN v_result;
END
$$;
