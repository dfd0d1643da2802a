-- Expands only: programs of the former release go on working on this schema.

-- A person's word on a call whose outcome nobody knew. What the model is told of the call is amended in place: a call
-- has one result. After the run's end the fact belongs to the session alone. A call to be tried again is executed by the
-- run's next attempt, under the same key; its result is told in place of the former one. To order that is to approve it:
-- who may not approve the run's calls may not either.
CREATE OR REPLACE FUNCTION codedock_resolve_call(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_tenant uuid := p_input->>'tenantId';
  v_to text := p_input->>'state';
  v_result jsonb := p_input->'result';
  v_actor jsonb := p_input->'actor';
  v_now timestamptz;
  v_ended boolean;
  v_content jsonb;
  c tool_calls;
  r runs;
  v_writer runs;
  w record;
BEGIN
  SELECT * INTO c FROM tool_calls WHERE id = (p_input->>'callId')::uuid AND tenant_id = v_tenant;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no tool call %.', p_input->>'callId' USING ERRCODE = 'CD001', HINT = 'not_found';
  END IF;
  SELECT * INTO r FROM runs WHERE id = c.run_id FOR NO KEY UPDATE;
  SELECT * INTO c FROM tool_calls WHERE id = c.id;
  IF v_to = 'approved' AND v_actor->>'id' = r.created_by AND (r.config->>'creatorMayApprove') = 'false' THEN
    RAISE EXCEPTION 'The agent''s profile does not let the creator of a run decide its approvals; another key must.'
      USING ERRCODE = 'CD001', HINT = 'forbidden';
  END IF;
  IF c.state <> 'unknown' THEN
    IF c.state = v_to AND c.source = 'person' AND c.result IS NOT DISTINCT FROM v_result THEN
      RETURN jsonb_build_object('events', '[]'::jsonb);
    END IF;
    RAISE EXCEPTION 'Tool call % is %: only a call whose outcome is unknown can be resolved, and only once.', c.id, c.state
      USING ERRCODE = 'CD001', HINT = 'conflict';
  END IF;
  v_ended := codedock_is_terminal(r.status);
  IF v_to = 'approved' THEN
    IF v_ended THEN
      RAISE EXCEPTION 'Run % has ended (%), so that its tool call cannot be tried again; resolve it as happened or did_not, and ask for it in a new run.',
        r.id, r.status USING ERRCODE = 'CD001', HINT = 'run_ended';
    ELSIF r.status NOT IN ('waiting_approval', 'queued') THEN
      RAISE EXCEPTION 'Run % is being executed, so that its tool call cannot be tried again now; try when it waits, or resolve it as happened or did_not.',
        r.id USING ERRCODE = 'CD001', HINT = 'conflict';
    END IF;
  END IF;
  v_now := codedock_now();
  IF NOT v_ended THEN
    v_writer := r;
  END IF;
  SELECT * INTO w FROM codedock_write(v_writer, v_tenant, c.session_id, NULL, jsonb_build_array(jsonb_build_object(
    'eventId', p_input->>'eventId', 'turnId', c.turn_id,
    'type', CASE v_to WHEN 'approved' THEN 'tool.execution_retry' ELSE 'tool.execution_result' END,
    'payload', jsonb_build_object('callId', c.id, 'tool', c.name)
      || CASE v_to WHEN 'approved' THEN jsonb_build_object('n', c.execution_count, 'error', p_input->>'reason')
         ELSE jsonb_build_object('state', v_to, 'source', 'person', 'result', v_result, 'by', v_actor->>'name') END)),
    '{}', v_now);
  UPDATE tool_calls SET state = v_to, result = v_result, source = 'person', settled_by = v_actor->>'name',
      updated_at = v_now
    WHERE id = c.id;
  IF v_to = 'approved' THEN
    DELETE FROM messages WHERE id = c.id AND tenant_id = v_tenant;
  ELSE
    v_content := jsonb_build_object('callId', c.id, 'output', p_input->'output');
    UPDATE messages SET content = v_content WHERE id = c.id AND tenant_id = v_tenant;
    IF NOT FOUND THEN
      INSERT INTO messages (id, tenant_id, session_id, run_id, turn_id, role, content, position, event_seq, created_at)
        VALUES (c.id, v_tenant, c.session_id, c.run_id, c.turn_id, 'tool', v_content, r.position, w.first_seq, v_now);
    END IF;
  END IF;
  INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
    VALUES (v_tenant, v_actor->>'name', 'tool_call.resolved', c.id::text, jsonb_strip_nulls(jsonb_build_object(
      'outcome', p_input->>'outcome', 'note', p_input->>'note', 'tool', c.name, 'runId', c.run_id,
      'keyId', v_actor->>'id')));
  RETURN jsonb_build_object('events', (SELECT jsonb_agg(codedock_event_view(e)) FROM events e
    WHERE e.session_id = c.session_id AND e.seq = w.first_seq));
END
$$;
