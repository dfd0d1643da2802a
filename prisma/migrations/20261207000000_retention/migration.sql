-- Expands only: programs of the former release go on working on this schema. Building the indexes blocks writes to their
-- tables for as long as it takes.

-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN     "former_hash" TEXT,
ADD COLUMN     "former_until" TIMESTAMPTZ(3),
ADD COLUMN     "rotated_at" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "agents" ADD COLUMN     "version" INTEGER NOT NULL DEFAULT 1;

-- AlterTable
ALTER TABLE "sessions" ADD COLUMN     "deleting_at" TIMESTAMPTZ(3),
ADD COLUMN     "pruned_seq" BIGINT NOT NULL DEFAULT 0;

-- CreateTable
CREATE TABLE "stream_tokens" (
    "hash" TEXT NOT NULL,
    "tenant_id" UUID NOT NULL,
    "key_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "stream_tokens_pkey" PRIMARY KEY ("hash")
);

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_former_hash_key" ON "api_keys"("former_hash");

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_tenant_id_id_key" ON "api_keys"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "runs_tenant_id_session_id_id_key" ON "runs"("tenant_id", "session_id", "id");

-- CreateIndex
CREATE INDEX "messages_run_id_idx" ON "messages"("run_id");

-- CreateIndex
CREATE INDEX "messages_turn_id_idx" ON "messages"("turn_id");

-- CreateIndex
CREATE INDEX "turns_session_id_idx" ON "turns"("session_id");

-- CreateIndex
CREATE INDEX "tool_calls_session_id_idx" ON "tool_calls"("session_id");

-- CreateIndex
CREATE INDEX "approvals_session_id_idx" ON "approvals"("session_id");

-- CreateIndex
CREATE INDEX "approvals_turn_id_idx" ON "approvals"("turn_id");

-- CreateIndex
CREATE INDEX "approval_grants_run_id_idx" ON "approval_grants"("run_id");

-- CreateIndex
CREATE INDEX "hook_audit_occurred_at_idx" ON "hook_audit" USING BRIN ("occurred_at");

-- CreateIndex
CREATE INDEX "admin_audit_occurred_at_idx" ON "admin_audit" USING BRIN ("occurred_at");

-- CreateIndex
CREATE INDEX "webhook_deliveries_session_id_idx" ON "webhook_deliveries"("session_id");

-- CreateIndex
CREATE INDEX "stream_tokens_session_id_idx" ON "stream_tokens"("session_id");

-- CreateIndex
CREATE INDEX "stream_tokens_key_id_idx" ON "stream_tokens"("key_id");

-- CreateIndex
CREATE INDEX "stream_tokens_expires_at_idx" ON "stream_tokens"("expires_at");

-- DropForeignKey
ALTER TABLE "events" DROP CONSTRAINT "events_tenant_id_run_id_fkey";

-- AddForeignKey
ALTER TABLE "events" ADD CONSTRAINT "events_tenant_id_session_id_run_id_fkey" FOREIGN KEY ("tenant_id", "session_id", "run_id") REFERENCES "runs"("tenant_id", "session_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "stream_tokens" ADD CONSTRAINT "stream_tokens_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "stream_tokens" ADD CONSTRAINT "stream_tokens_tenant_id_key_id_fkey" FOREIGN KEY ("tenant_id", "key_id") REFERENCES "api_keys"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "stream_tokens" ADD CONSTRAINT "stream_tokens_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "stream_tokens" ADD CONSTRAINT "stream_tokens_tenant_id_session_id_run_id_fkey" FOREIGN KEY ("tenant_id", "session_id", "run_id") REFERENCES "runs"("tenant_id", "session_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;



-- ─── What Prisma cannot express ──────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE "tenants" ADD CONSTRAINT "tenants_retention" CHECK (
  least("event_retention_days", "audit_retention_days", "message_retention_days") > 0);

CREATE INDEX "sessions_deleting" ON "sessions" ("deleting_at") WHERE "deleting_at" IS NOT NULL;

-- ─── Retention ───────────────────────────────────────────────────────────────────────────────────────────────────────
--
-- Each function takes one batch. Those that walk over sessions begin after p_after and tell in `next` where the next
-- batch begins; without `next` the walk is over. A session whose row is locked is left to the next walk.

-- Takes events from the front of each session, never one of a run that is not over: what is left is p+1, p+2 … n, and
-- `pruned_seq` is p.
CREATE FUNCTION codedock_prune_events(p_tenant uuid, p_before timestamptz, p_after uuid, p_limit integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_left integer := p_limit;
  v_next uuid := p_after;
  v_walked integer := 0;
  v_id uuid;
  v_from bigint;
  v_to bigint;
BEGIN
  FOR v_id IN
    SELECT s.id FROM sessions s
    WHERE s.tenant_id = p_tenant AND s.id > p_after AND s.created_at < p_before AND s.last_seq > s.pruned_seq
      AND EXISTS (SELECT 1 FROM events e
        WHERE e.session_id = s.id AND e.seq = s.pruned_seq + 1 AND e.occurred_at < p_before)
    ORDER BY s.id LIMIT 100
  LOOP
    v_walked := v_walked + 1;
    -- Locked by a statement of its own: the next one sees what was committed until then, and nothing comes after it.
    PERFORM 1 FROM sessions WHERE id = v_id FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
      SELECT s.pruned_seq, least(
          (SELECT min(r.first_seq) FROM runs r WHERE r.session_id = v_id AND NOT codedock_is_terminal(r.status)) - 1,
          (SELECT e.seq FROM events e WHERE e.session_id = v_id AND e.seq > s.pruned_seq AND e.occurred_at >= p_before
            ORDER BY e.seq LIMIT 1) - 1,
          s.last_seq, s.pruned_seq + v_left)
        INTO v_from, v_to FROM sessions s WHERE s.id = v_id;
    END IF;
    IF FOUND AND v_to > v_from THEN
      DELETE FROM events WHERE session_id = v_id AND seq <= v_to;
      UPDATE sessions SET pruned_seq = v_to WHERE id = v_id;
      v_left := v_left - (v_to - v_from)::integer;
      -- The session may hold more than fitted into this batch.
      EXIT WHEN v_left <= 0;
    END IF;
    v_next := v_id;
  END LOOP;
  RETURN jsonb_build_object('pruned', p_limit - v_left)
    || CASE WHEN v_left <= 0 OR v_walked = 100 THEN jsonb_build_object('next', v_next) ELSE '{}' END;
END
$$;

-- Takes what was said in runs that ended before: their messages, tool calls with executions, and approvals; and notices
-- of no run. Whole runs, oldest first, and none while a run of the session is not over: it reads all of them.
CREATE FUNCTION codedock_prune_messages(p_tenant uuid, p_before timestamptz, p_after uuid, p_limit integer) RETURNS jsonb
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

-- Takes audit rows, of gates and of administrators; those of runs that are not over stay.
CREATE FUNCTION codedock_prune_audit(p_tenant uuid, p_before timestamptz, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  v_hooks integer;
  v_admin integer;
BEGIN
  DELETE FROM hook_audit h USING (
      SELECT o.id, o.occurred_at FROM hook_audit o
      WHERE o.tenant_id = p_tenant AND o.occurred_at < p_before AND NOT EXISTS (
        SELECT 1 FROM runs r WHERE r.id = o.run_id AND NOT codedock_is_terminal(r.status))
      LIMIT p_limit) AS old
    WHERE h.id = old.id AND h.occurred_at = old.occurred_at;
  GET DIAGNOSTICS v_hooks = ROW_COUNT;
  DELETE FROM admin_audit a USING (
      SELECT o.id, o.occurred_at FROM admin_audit o WHERE o.tenant_id = p_tenant AND o.occurred_at < p_before
      LIMIT p_limit) AS old
    WHERE a.id = old.id AND a.occurred_at = old.occurred_at;
  GET DIAGNOSTICS v_admin = ROW_COUNT;
  RETURN v_hooks + v_admin;
END
$$;

-- ─── Deleting a session ──────────────────────────────────────────────────────────────────────────────────────────────

-- From here on nobody sees the session, and it takes no input; its rows go batch by batch. The audit keeps who and when.
CREATE FUNCTION codedock_begin_deleting(p_tenant uuid, p_session uuid, p_actor text, p_key text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  s sessions;
  v_now timestamptz;
BEGIN
  SELECT * INTO s FROM sessions WHERE id = p_session AND tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no session %.', p_session USING ERRCODE = 'CD001', HINT = 'not_found';
  ELSIF s.deleting_at IS NOT NULL THEN
    RETURN;
  ELSIF EXISTS (SELECT 1 FROM runs WHERE session_id = p_session AND NOT codedock_is_terminal(status)) THEN
    RAISE EXCEPTION 'Session % has a run that is not over; cancel it or wait for it, or delete with ?cancel=true.', p_session
      USING ERRCODE = 'CD001', HINT = 'session_busy';
  END IF;
  v_now := codedock_now();
  UPDATE sessions SET deleting_at = v_now, archived_at = coalesce(archived_at, v_now) WHERE id = p_session;
  INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
    VALUES (p_tenant, p_actor, 'session.deleted', p_session::text, jsonb_build_object('keyId', p_key,
      'runs', (SELECT count(*) FROM runs WHERE session_id = p_session), 'events', s.last_seq - s.pruned_seq));
END
$$;

-- Deletes about so many rows of a session that is being deleted, and at last the session; true when it is gone.
CREATE FUNCTION codedock_delete_some(p_tenant uuid, p_session uuid, p_limit integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_left integer := p_limit;
  v_count integer;
  v_table text;
BEGIN
  -- Runs before the session, as everywhere.
  PERFORM 1 FROM runs WHERE session_id = p_session ORDER BY id FOR UPDATE;
  PERFORM 1 FROM sessions WHERE id = p_session AND tenant_id = p_tenant AND deleting_at IS NOT NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN NOT EXISTS (SELECT 1 FROM sessions WHERE id = p_session AND tenant_id = p_tenant);
  END IF;
  -- What can be much goes first, so that deleting a run finds little left to take with it.
  FOREACH v_table IN ARRAY ARRAY['events', 'hook_audit', 'messages', 'webhook_deliveries', 'approvals', 'tool_calls',
    'runs'] LOOP
    EXECUTE format('DELETE FROM %I WHERE ctid = ANY (ARRAY(SELECT ctid FROM %I WHERE session_id = $1 LIMIT $2))',
      v_table, v_table) USING p_session, v_left;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_left := v_left - v_count;
    IF v_left <= 0 THEN
      RETURN FALSE;
    END IF;
  END LOOP;
  DELETE FROM memory WHERE tenant_id = p_tenant AND scope = 'session' AND owner = p_session::text;
  DELETE FROM idempotency_keys WHERE tenant_id = p_tenant
    AND (body->>'id' = p_session::text OR body#>>'{run,sessionId}' = p_session::text);
  DELETE FROM sessions WHERE id = p_session;
  RETURN TRUE;
END
$$;
