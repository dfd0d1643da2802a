-- Expands only: programs of the former release go on working on this schema.

-- AlterTable
ALTER TABLE "approvals" ADD COLUMN     "reminded_at" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "approval_calls" ADD COLUMN     "edited_digest" TEXT;

-- CreateTable
CREATE TABLE "approval_grants" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID,
    "approval_id" UUID NOT NULL,
    "call_id" UUID NOT NULL,
    "tool" TEXT NOT NULL,
    "schema_digest" TEXT NOT NULL,
    "granted_by" TEXT NOT NULL,
    "granted_by_id" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "revoked_at" TIMESTAMPTZ(3),

    CONSTRAINT "approval_grants_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "event_cursors" (
    "tenant_id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "txid" xid8 NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()),

    CONSTRAINT "event_cursors_pkey" PRIMARY KEY ("tenant_id","name")
);

-- CreateTable
CREATE TABLE "webhooks" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "url" TEXT NOT NULL,
    "description" TEXT,
    "events" TEXT[],
    "secret" TEXT NOT NULL,
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_success_at" TIMESTAMPTZ(3),
    "last_failure_at" TIMESTAMPTZ(3),
    "disabled_at" TIMESTAMPTZ(3),
    "disabled_reason" TEXT,

    CONSTRAINT "webhooks_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "webhook_deliveries" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "webhook_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_id" UUID NOT NULL,
    "type" TEXT NOT NULL,
    "state" TEXT NOT NULL DEFAULT 'pending',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "next_at" TIMESTAMPTZ(3) NOT NULL,
    "response_status" INTEGER,
    "error" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "settled_at" TIMESTAMPTZ(3),

    CONSTRAINT "webhook_deliveries_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "approval_calls_call_id_idx" ON "approval_calls"("call_id");

-- CreateIndex
CREATE INDEX "approval_grants_session_id_idx" ON "approval_grants"("session_id");

-- CreateIndex
CREATE UNIQUE INDEX "approval_grants_approval_id_call_id_key" ON "approval_grants"("approval_id", "call_id");

-- CreateIndex
CREATE INDEX "webhooks_tenant_id_created_at_idx" ON "webhooks"("tenant_id", "created_at");

-- CreateIndex
CREATE UNIQUE INDEX "webhooks_tenant_id_id_key" ON "webhooks"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "webhook_deliveries_webhook_id_event_id_key" ON "webhook_deliveries"("webhook_id", "event_id");

-- AddForeignKey
ALTER TABLE "approval_grants" ADD CONSTRAINT "approval_grants_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approval_grants" ADD CONSTRAINT "approval_grants_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "event_cursors" ADD CONSTRAINT "event_cursors_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "webhooks" ADD CONSTRAINT "webhooks_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_tenant_id_webhook_id_fkey" FOREIGN KEY ("tenant_id", "webhook_id") REFERENCES "webhooks"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;



-- ─── What Prisma cannot express ──────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_state"
  CHECK ("state" IN ('pending', 'delivered', 'failed') AND ("state" = 'pending') = ("settled_at" IS NULL));
CREATE INDEX "webhook_deliveries_due" ON "webhook_deliveries" ("next_at") WHERE "state" = 'pending';
CREATE INDEX "webhook_deliveries_settled" ON "webhook_deliveries" ("settled_at") WHERE "state" <> 'pending';
CREATE INDEX "approvals_superseding" ON "approvals" ("supersedes") WHERE "supersedes" IS NOT NULL;
-- What webhooks may tell of, by transaction: the cursor reads no other event.
CREATE INDEX "events_told" ON "events" ("txid") WHERE "type" IN ('tool.approval_required', 'tool.approval_reminder',
  'run.completed', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.blocked');

INSERT INTO "event_cursors" ("tenant_id", "name") VALUES ('00000000-0000-0000-0000-000000000000', 'webhooks');

-- ─── Views ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE OR REPLACE FUNCTION codedock_call_view(c tool_calls) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', c.id, 'turnId', c.turn_id, 'index', c.index, 'name', c.name, 'providerCallId', c.provider_call_id,
      'state', c.state, 'effect', c.effect, 'executions', c.execution_count, 'denialReason', c.denial_reason,
      'settledBy', c.settled_by,
      'approvalId', CASE WHEN c.gate_decision = 'ask' THEN (
        SELECT a.id FROM approval_calls x JOIN approvals a ON a.id = x.approval_id
        WHERE x.call_id = c.id ORDER BY a.created_at DESC, a.id DESC LIMIT 1) END))
    || jsonb_build_object('arguments', c.arguments)
    || CASE WHEN c.digest IS NULL THEN '{}' ELSE jsonb_build_object('gated', jsonb_build_object(
         'digest', c.digest, 'gateVersion', c.gate_version, 'decision', c.gate_decision, 'reasons', c.gate_reasons)) END
    || CASE WHEN c.result IS NULL THEN '{}' ELSE jsonb_build_object('result', c.result) END
$$;

CREATE OR REPLACE FUNCTION codedock_approval_view(a approvals) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', a.id, 'sessionId', a.session_id, 'runId', a.run_id, 'turnId', a.turn_id, 'status', a.status,
      'supersedes', a.supersedes,
      'supersededBy', (SELECT s.id FROM approvals s WHERE s.supersedes = a.id ORDER BY s.created_at DESC LIMIT 1),
      'createdAt', codedock_time(a.created_at), 'expiresAt', codedock_time(a.expires_at),
      'remindedAt', codedock_time(a.reminded_at), 'decidedAt', codedock_time(a.decided_at)))
    || jsonb_build_object('calls', (
      SELECT coalesce(jsonb_agg(
          jsonb_strip_nulls(jsonb_build_object(
            'callId', c.call_id, 'tool', c.tool, 'digest', c.digest, 'gateVersion', c.gate_version,
            'decision', c.decision, 'scope', CASE c.decision WHEN 'approve' THEN c.scope END, 'reason', c.reason,
            'decidedBy', c.decided_by, 'decidedAt', codedock_time(c.decided_at)))
          || jsonb_build_object('arguments', c.arguments, 'reasons', c.reasons)
          || CASE WHEN c.edited_arguments IS NULL THEN '{}' ELSE jsonb_build_object(
            'editedArguments', c.edited_arguments, 'editedDigest', c.edited_digest) END ORDER BY c.index), '[]')
      FROM approval_calls c WHERE c.approval_id = a.id))
$$;

CREATE FUNCTION codedock_grant_view(g approval_grants) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', g.id, 'sessionId', g.session_id, 'runId', g.run_id, 'approvalId', g.approval_id, 'callId', g.call_id,
      'tool', g.tool, 'scope', CASE WHEN g.run_id IS NULL THEN 'session' ELSE 'run' END, 'grantedBy', g.granted_by,
      'createdAt', codedock_time(g.created_at), 'revokedAt', codedock_time(g.revoked_at)))
$$;

CREATE FUNCTION codedock_webhook_view(w webhooks) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', w.id, 'url', w.url, 'description', w.description, 'events', w.events,
      'status', CASE WHEN w.disabled_at IS NULL THEN 'enabled' ELSE 'disabled' END,
      'createdAt', codedock_time(w.created_at), 'lastSuccessAt', codedock_time(w.last_success_at),
      'lastFailureAt', codedock_time(w.last_failure_at), 'disabledAt', codedock_time(w.disabled_at),
      'disabledReason', w.disabled_reason))
$$;

-- ─── Decisions ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- A call whose approval was voided waits for a person before the new approval is stored: a runner that dies in between
-- must not leave it approved.
CREATE OR REPLACE FUNCTION codedock_may_move_call(p_from text, p_to text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_from
    WHEN 'proposed' THEN p_to IN
      ('proposed', 'failed', 'blocked', 'skipped', 'awaiting_approval', 'executing', 'denied', 'cancelled')
    WHEN 'awaiting_approval' THEN p_to IN ('awaiting_approval', 'approved', 'denied', 'cancelled')
    WHEN 'approved' THEN p_to IN
      ('approved', 'executing', 'awaiting_approval', 'blocked', 'skipped', 'failed', 'cancelled')
    WHEN 'denied' THEN p_to = 'denied'
    WHEN 'executing' THEN p_to IN ('executing', 'succeeded', 'failed', 'unknown')
    WHEN 'unknown' THEN p_to IN ('succeeded', 'failed', 'approved')
    ELSE FALSE
  END
$$;

-- A lease that was taken, with the approvals that reach beyond their call and cover its run. Where the profile forbids
-- that a run's creator approves, what he granted on another run does not count either.
CREATE FUNCTION codedock_with_grants(p_taken jsonb, p_run uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_grants jsonb;
BEGIN
  IF p_taken->>'kind' = 'nothing' THEN
    RETURN p_taken;
  END IF;
  SELECT jsonb_agg(DISTINCT jsonb_build_object('tool', g.tool, 'schemaDigest', g.schema_digest)) INTO v_grants
    FROM runs r JOIN approval_grants g ON g.session_id = r.session_id AND g.tenant_id = r.tenant_id
    WHERE r.id = p_run AND g.revoked_at IS NULL AND (g.run_id IS NULL OR g.run_id = r.id)
      AND ((r.config->>'creatorMayApprove') IS DISTINCT FROM 'false' OR g.granted_by_id <> r.created_by);
  IF v_grants IS NULL THEN
    RETURN p_taken;
  END IF;
  RETURN jsonb_set(p_taken, '{snapshot,grants}', v_grants);
END
$$;

-- A person's word on calls of an approval, or, with `expire`, nobody's on those that are still open. Edited arguments
-- become the call's, under a seal of their own and a gate version no runner computes: the gate is asked once more.
CREATE OR REPLACE FUNCTION codedock_decide(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_tenant uuid := p_input->>'tenantId';
  v_expire boolean := coalesce((p_input->>'expire')::boolean, false);
  v_actor jsonb := p_input->'actor';
  v_decisions jsonb := p_input->'decisions';
  v_limit record;
  v_now timestamptz;
  a approvals;
  r runs;
  w record;
  v_fresh jsonb;
  v_other uuid;
  v_ring jsonb;
BEGIN
  SELECT * INTO a FROM approvals WHERE id = (p_input->>'approvalId')::uuid AND tenant_id = v_tenant;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no approval %.', p_input->>'approvalId' USING ERRCODE = 'CD001', HINT = 'not_found';
  END IF;
  SELECT * INTO v_limit FROM codedock_lock_tenant(v_tenant);
  SELECT * INTO r FROM runs WHERE id = a.run_id FOR NO KEY UPDATE;
  SELECT * INTO a FROM approvals WHERE id = a.id;
  v_now := codedock_now();
  IF v_expire THEN
    IF a.status <> 'open' OR a.expires_at >= v_now THEN
      RETURN NULL;
    END IF;
    SELECT coalesce(jsonb_agg(jsonb_build_object('callId', c.call_id, 'decision', 'deny', 'reason',
        'Nobody decided before the approval expired.') ORDER BY c.index), '[]')
      INTO v_decisions FROM approval_calls c WHERE c.approval_id = a.id AND c.decision IS NULL;
  ELSIF v_actor->>'id' = r.created_by AND (r.config->>'creatorMayApprove') = 'false' THEN
    RAISE EXCEPTION 'The agent''s profile does not let the creator of a run decide its approvals; another key must.'
      USING ERRCODE = 'CD001', HINT = 'forbidden';
  END IF;
  SELECT d."callId" INTO v_other FROM jsonb_to_recordset(v_decisions) AS d("callId" uuid)
    WHERE NOT EXISTS (SELECT 1 FROM approval_calls c WHERE c.approval_id = a.id AND c.call_id = d."callId") LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'Approval % has no call %.', a.id, v_other USING ERRCODE = 'CD001', HINT = 'invalid_request';
  END IF;
  IF (SELECT count(DISTINCT d->>'callId') FROM jsonb_array_elements(v_decisions) AS d) <> jsonb_array_length(v_decisions) THEN
    RAISE EXCEPTION 'A call of approval % is decided twice in one request.', a.id
      USING ERRCODE = 'CD001', HINT = 'invalid_request';
  END IF;
  SELECT c.call_id INTO v_other
    FROM jsonb_to_recordset(v_decisions) AS d("callId" uuid, decision text, reason text, scope text, arguments jsonb)
    JOIN approval_calls c ON c.approval_id = a.id AND c.call_id = d."callId"
    WHERE c.decision IS NOT NULL AND (c.decision <> d.decision OR c.reason IS DISTINCT FROM d.reason
      OR coalesce(c.scope, 'once') <> coalesce(d.scope, 'once') OR c.edited_arguments IS DISTINCT FROM d.arguments)
    LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'Call % of approval % has been decided differently.', v_other, a.id
      USING ERRCODE = 'CD001', HINT = 'approval_decided';
  END IF;
  SELECT jsonb_agg(d ORDER BY c.index) INTO v_fresh FROM jsonb_array_elements(v_decisions) AS d
    JOIN approval_calls c ON c.approval_id = a.id AND c.call_id = (d->>'callId')::uuid WHERE c.decision IS NULL;
  IF v_fresh IS NULL AND NOT v_expire THEN
    RETURN jsonb_build_object('approval', codedock_approval_view(a), 'events', '[]'::jsonb);
  END IF;
  IF a.status <> 'open' OR r.status <> 'waiting_approval' OR r.approval_id IS DISTINCT FROM a.id THEN
    RAISE EXCEPTION 'Approval % is % and cannot be decided any more.', a.id,
        CASE WHEN a.status = 'open' THEN 'void' ELSE a.status END
      USING ERRCODE = 'CD001', HINT = 'approval_decided';
  END IF;
  -- Not decided after its time, though the sweep has not come by yet.
  IF NOT v_expire AND a.expires_at < v_now THEN
    RAISE EXCEPTION 'Approval % has expired; what was still open is denied.', a.id
      USING ERRCODE = 'CD001', HINT = 'approval_decided';
  END IF;
  UPDATE approval_calls c SET decision = d.decision, reason = d.reason, scope = coalesce(d.scope, 'once'),
      edited_arguments = d.arguments, edited_digest = d.digest, decided_by = v_actor->>'name',
      decided_by_id = v_actor->>'id', decided_at = v_now
    FROM jsonb_to_recordset(v_fresh) AS d("callId" uuid, decision text, reason text, scope text, arguments jsonb,
      digest text)
    WHERE c.approval_id = a.id AND c.call_id = d."callId";
  INSERT INTO approval_grants (id, tenant_id, session_id, run_id, approval_id, call_id, tool, schema_digest, granted_by,
      granted_by_id, created_at)
    SELECT gen_random_uuid(), v_tenant, r.session_id, CASE d.scope WHEN 'run' THEN r.id END, a.id, c.call_id, c.tool,
      d."schemaDigest", v_actor->>'name', v_actor->>'id', v_now
    FROM jsonb_to_recordset(v_fresh) AS d("callId" uuid, decision text, scope text, "schemaDigest" text)
    JOIN approval_calls c ON c.approval_id = a.id AND c.call_id = d."callId"
    WHERE d.decision = 'approve' AND d.scope IN ('run', 'session');
  SELECT * INTO w FROM codedock_write(r, v_tenant, r.session_id, NULL, jsonb_build_array(
    jsonb_build_object('eventId', p_input#>>'{eventIds,decided}', 'type', 'tool.approval_decided', 'turnId', a.turn_id,
      'payload', jsonb_build_object('approvalId', a.id, 'actor', v_actor->>'name', 'decisions', (
        SELECT coalesce(jsonb_agg(d - 'digest' - 'schemaDigest' ORDER BY ord), '[]')
        FROM jsonb_array_elements(v_fresh) WITH ORDINALITY AS e(d, ord))))), '{}', v_now);
  IF NOT EXISTS (SELECT 1 FROM approval_calls c WHERE c.approval_id = a.id AND c.decision IS NULL) THEN
    UPDATE approvals SET status = CASE WHEN v_expire THEN 'expired' ELSE 'decided' END, decided_at = v_now
      WHERE id = a.id RETURNING * INTO a;
    UPDATE tool_calls t SET state = CASE c.decision WHEN 'approve' THEN 'approved' ELSE 'denied' END,
        denial_reason = CASE c.decision WHEN 'deny' THEN c.reason END,
        settled_by = CASE c.decision WHEN 'deny' THEN c.decided_by END,
        arguments = coalesce(c.edited_arguments, t.arguments), digest = coalesce(c.edited_digest, t.digest),
        gate_version = CASE WHEN c.edited_arguments IS NULL THEN t.gate_version ELSE 'edited' END, updated_at = v_now
      FROM approval_calls c WHERE c.approval_id = a.id AND t.id = c.call_id AND t.state = 'awaiting_approval';
    UPDATE runs SET status = 'queued', approval_id = NULL, queued_at = v_now, doorbell = r.doorbell + 1, rung_at = v_now
      WHERE id = r.id RETURNING * INTO r;
    PERFORM codedock_write(r, v_tenant, r.session_id, NULL, jsonb_build_array(
      jsonb_build_object('eventId', p_input#>>'{eventIds,stateChanged}', 'type', 'run.state_changed', 'payload',
        '{"from": "waiting_approval", "to": "queued"}'::jsonb)), '{}', v_now);
    -- Over the cap too: a decided run is not kept waiting by newer ones.
    IF v_limit.cap IS NOT NULL THEN
      UPDATE tenants SET in_flight = in_flight + 1 WHERE id = v_tenant RETURNING in_flight INTO v_limit.in_flight;
    END IF;
    v_ring := codedock_ring_view(r, v_limit.in_flight);
  END IF;
  RETURN jsonb_build_object('approval', codedock_approval_view(a), 'events', (
      SELECT jsonb_agg(codedock_event_view(e) ORDER BY e.seq) FROM events e
      WHERE e.session_id = r.session_id AND e.seq >= w.first_seq))
    || CASE WHEN v_ring IS NULL THEN '{}' ELSE jsonb_build_object('ring', v_ring) END;
END
$$;

-- Open approvals of which a share of their life is over and of which nobody was reminded.
CREATE FUNCTION codedock_due_reminders(p_share float8) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('tenantId', a.tenant_id, 'approvalId', a.id)), '[]')
  FROM (SELECT tenant_id, id FROM approvals WHERE status = 'open' AND reminded_at IS NULL AND expires_at > codedock_now()
    AND created_at + (expires_at - created_at) * p_share <= codedock_now() ORDER BY expires_at LIMIT 500) AS a
$$;

CREATE FUNCTION codedock_remind(p_tenant uuid, p_approval uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a approvals;
  r runs;
  w record;
  v_now timestamptz;
BEGIN
  SELECT * INTO a FROM approvals WHERE id = p_approval AND tenant_id = p_tenant;
  SELECT * INTO r FROM runs WHERE id = a.run_id FOR NO KEY UPDATE;
  SELECT * INTO a FROM approvals WHERE id = a.id;
  v_now := codedock_now();
  IF a.id IS NULL OR a.status <> 'open' OR a.reminded_at IS NOT NULL OR r.approval_id IS DISTINCT FROM a.id
      OR a.expires_at <= v_now THEN
    RETURN '[]';
  END IF;
  UPDATE approvals SET reminded_at = v_now WHERE id = a.id;
  SELECT * INTO w FROM codedock_write(r, p_tenant, r.session_id, NULL, jsonb_build_array(
    jsonb_build_object('eventId', gen_random_uuid(), 'type', 'tool.approval_reminder', 'turnId', a.turn_id,
      'payload', jsonb_build_object('approvalId', a.id, 'expiresAt', codedock_time(a.expires_at)))), '{}', v_now);
  RETURN (SELECT jsonb_agg(codedock_event_view(e)) FROM events e WHERE e.session_id = r.session_id AND e.seq = w.first_seq);
END
$$;

-- A person's word on a call whose outcome nobody knew. What the model is told of the call is amended in place: a call
-- has one result. After the run's end the fact belongs to the session alone.
CREATE FUNCTION codedock_resolve_call(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    ELSIF r.status NOT IN ('waiting_approval', 'queued')
        OR NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = c.turn_id AND t.status <> 'completed') THEN
      RAISE EXCEPTION 'Run % has gone on since tool call %, so that it cannot be tried again in its place; resolve it as happened or did_not.',
        r.id, c.id USING ERRCODE = 'CD001', HINT = 'conflict';
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

-- ─── Webhooks ────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Makes a delivery of every told event that was committed since the cursor. Only transactions older than every running
-- one are read, so that none commits behind the cursor; deliveries and cursor move in one transaction.
CREATE FUNCTION codedock_webhook_fan_out() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_from xid8;
  v_to xid8;
  v_count integer := 0;
BEGIN
  SELECT txid INTO v_from FROM event_cursors
    WHERE tenant_id = '00000000-0000-0000-0000-000000000000' AND name = 'webhooks' FOR NO KEY UPDATE;
  v_to := pg_snapshot_xmin(pg_current_snapshot());
  IF v_to <= v_from THEN
    RETURN 0;
  END IF;
  IF NOT EXISTS (SELECT 1 FROM webhooks WHERE disabled_at IS NULL) THEN
    -- Nobody is told: the cursor only has to stay near.
    IF v_to::text::numeric - v_from::text::numeric < 10000 THEN
      RETURN 0;
    END IF;
  ELSE
    INSERT INTO webhook_deliveries (id, tenant_id, webhook_id, session_id, seq, event_id, type, next_at, created_at)
      SELECT gen_random_uuid(), e.tenant_id, w.id, e.session_id, e.seq, e.event_id, e.type, codedock_now(), codedock_now()
      FROM events e JOIN webhooks w ON w.tenant_id = e.tenant_id
      WHERE e.txid >= v_from AND e.txid < v_to
        AND e.type IN ('tool.approval_required', 'tool.approval_reminder', 'run.completed', 'run.failed',
          'run.cancelled', 'run.timed_out', 'run.blocked')
        AND w.disabled_at IS NULL AND e.type = ANY (w.events) AND e.occurred_at >= w.created_at
      ORDER BY e.txid, e.session_id, e.seq
      ON CONFLICT (webhook_id, event_id) DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
  END IF;
  UPDATE event_cursors SET txid = v_to
    WHERE tenant_id = '00000000-0000-0000-0000-000000000000' AND name = 'webhooks';
  RETURN v_count;
END
$$;

-- Takes due deliveries for one attempt each, at most so many per webhook. Who takes one and dies has lost it after the
-- given time. The event of a delivery is absent when retention has taken it.
CREATE FUNCTION codedock_webhook_take(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_taken jsonb;
BEGIN
  WITH due AS (
    SELECT d.id, row_number() OVER (PARTITION BY d.webhook_id ORDER BY d.next_at, d.seq) AS n, d.next_at
    FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
    WHERE d.state = 'pending' AND d.next_at <= v_now AND w.disabled_at IS NULL
      AND NOT (d.webhook_id::text IN (SELECT jsonb_array_elements_text(p_input->'except')))
  ), chosen AS (
    SELECT id FROM due WHERE n <= (p_input->>'perWebhook')::integer ORDER BY next_at LIMIT (p_input->>'limit')::integer
  ), locked AS (
    SELECT d.id FROM webhook_deliveries d JOIN chosen USING (id)
    WHERE d.state = 'pending' AND d.next_at <= v_now FOR NO KEY UPDATE OF d SKIP LOCKED
  ), taken AS (
    UPDATE webhook_deliveries d SET attempts = d.attempts + 1,
        next_at = v_now + (p_input->>'holdMs')::integer * interval '1 millisecond'
      FROM locked WHERE d.id = locked.id RETURNING d.*
  )
  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', t.id, 'tenantId', t.tenant_id, 'webhookId', t.webhook_id,
      'attempt', t.attempts, 'url', w.url, 'secret', w.secret))
      || CASE WHEN e.seq IS NULL THEN '{}' ELSE jsonb_build_object('event', codedock_event_view(e)) END
      ORDER BY t.created_at, t.session_id, t.seq)
    INTO v_taken
    FROM taken t JOIN webhooks w ON w.id = t.webhook_id
    LEFT JOIN events e ON e.session_id = t.session_id AND e.seq = t.seq;
  RETURN coalesce(v_taken, '[]');
END
$$;

-- The outcome of one attempt. Without a further one the delivery is given up; a webhook that took nothing since that
-- delivery was made is disabled, and so is one that says it is gone.
CREATE FUNCTION codedock_webhook_settle(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_ok boolean := (p_input->>'ok')::boolean;
  v_again integer := p_input->>'againMs';
  v_reason text;
  d webhook_deliveries;
BEGIN
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
