-- Expands only: programs of the former release go on working on this schema.

-- The outcome of one attempt. Without a further one the delivery is given up; a webhook that took nothing since that
-- delivery was made is disabled, and so is one that says it is gone.
CREATE OR REPLACE FUNCTION codedock_webhook_settle(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_ok boolean := (p_input->>'ok')::boolean;
  v_again integer := p_input->>'againMs';
  v_reason text;
  d webhook_deliveries;
BEGIN
  -- Lock order: webhook → delivery, because disabling settles what else is pending.
  PERFORM 1 FROM webhooks w JOIN webhook_deliveries o ON o.webhook_id = w.id
    WHERE o.id = (p_input->>'id')::uuid FOR NO KEY UPDATE OF w;
  SELECT * INTO d FROM webhook_deliveries WHERE id = (p_input->>'id')::uuid FOR NO KEY UPDATE;
  IF NOT FOUND OR d.state <> 'pending' THEN
    RETURN '{}';
  END IF;
  UPDATE webhook_deliveries SET
      state = CASE WHEN v_ok THEN 'delivered' WHEN v_again IS NULL THEN 'failed' ELSE 'pending' END,
      settled_at = CASE WHEN v_ok OR v_again IS NULL THEN v_now END,
      next_at = v_now + coalesce(v_again, 0) * interval '1 millisecond',
      response_status = (p_input->>'status')::integer, error = p_input->>'error'
    WHERE id = d.id;
  IF v_ok THEN
    UPDATE webhooks SET last_success_at = v_now WHERE id = d.webhook_id;
    RETURN '{}';
  END IF;
  UPDATE webhooks SET last_failure_at = v_now WHERE id = d.webhook_id;
  IF (p_input->>'gone')::boolean THEN
    v_reason := 'The receiver answered 410: it is gone.';
  ELSIF v_again IS NULL THEN
    v_reason := format('A delivery was given up after %s attempts, and none has succeeded meanwhile.', d.attempts);
  ELSE
    RETURN '{}';
  END IF;
  UPDATE webhooks SET disabled_at = v_now, disabled_reason = v_reason
    WHERE id = d.webhook_id AND disabled_at IS NULL
      AND ((p_input->>'gone')::boolean OR last_success_at IS NULL OR last_success_at < d.created_at);
  IF NOT FOUND THEN
    RETURN '{}';
  END IF;
  UPDATE webhook_deliveries SET state = 'failed', settled_at = v_now, error = 'The webhook was disabled.'
    WHERE webhook_id = d.webhook_id AND state = 'pending';
  INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
    VALUES (d.tenant_id, 'host', 'webhook.disabled', d.webhook_id::text, jsonb_build_object('reason', v_reason));
  RETURN jsonb_build_object('disabled', v_reason);
END
$$;
