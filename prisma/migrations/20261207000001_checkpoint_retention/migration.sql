-- As before, and a summary goes with what was said in the run that made it.
CREATE OR REPLACE FUNCTION codedock_prune_messages(p_tenant uuid, p_before timestamptz, p_after uuid, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_left integer := p_limit;
  v_next uuid := p_after;
  v_walked integer := 0;
  v_count integer;
  v_id uuid;
  v_run uuid;
BEGIN
  FOR v_id IN
    SELECT s.id FROM sessions s CROSS JOIN LATERAL (
      SELECT coalesce(r.ended_at, CASE WHEN m.run_id IS NULL THEN m.created_at END) AS since
      FROM messages m LEFT JOIN runs r ON r.id = m.run_id WHERE m.session_id = s.id
      ORDER BY m.event_seq, m.id LIMIT 1) AS oldest
    WHERE s.tenant_id = p_tenant AND s.id > p_after AND s.created_at < p_before AND oldest.since < p_before
    ORDER BY s.id LIMIT 100
  LOOP
    v_walked := v_walked + 1;
    -- Whether a session is busy changes under its row lock only.
    PERFORM 1 FROM sessions WHERE id = v_id FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND AND NOT EXISTS (SELECT 1 FROM runs WHERE session_id = v_id AND NOT codedock_is_terminal(status)) THEN
      DELETE FROM messages WHERE session_id = v_id AND run_id IS NULL AND created_at < p_before;
      GET DIAGNOSTICS v_count = ROW_COUNT;
      v_left := v_left - v_count;
      FOR v_run IN
        SELECT r.id FROM runs r WHERE r.session_id = v_id AND r.ended_at < p_before
          AND EXISTS (SELECT 1 FROM messages m WHERE m.run_id = r.id)
        ORDER BY r.position
      LOOP
        DELETE FROM messages WHERE run_id = v_run;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_left := v_left - v_count;
        DELETE FROM context_checkpoints WHERE run_id = v_run;
        DELETE FROM approvals WHERE run_id = v_run;
        DELETE FROM tool_calls WHERE run_id = v_run;
        EXIT WHEN v_left <= 0;
      END LOOP;
      EXIT WHEN v_left <= 0;
    END IF;
    v_next := v_id;
  END LOOP;
  RETURN jsonb_build_object('pruned', p_limit - v_left)
    || CASE WHEN v_left <= 0 OR v_walked = 100 THEN jsonb_build_object('next', v_next) ELSE '{}' END;
END
$$;
