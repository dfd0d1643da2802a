-- CreateSchema
CREATE SCHEMA IF NOT EXISTS "public";

-- CreateTable
CREATE TABLE "tenants" (
    "id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "max_concurrent_runs" INTEGER,
    "in_flight" INTEGER NOT NULL DEFAULT 0,
    "event_retention_days" INTEGER,
    "audit_retention_days" INTEGER,
    "message_retention_days" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tenants_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "api_keys" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "scopes" TEXT[],
    "created_by" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "revoked_by" TEXT,

    CONSTRAINT "api_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "agents" (
    "tenant_id" UUID NOT NULL,
    "name" TEXT NOT NULL,
    "profile" JSONB NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "agents_pkey" PRIMARY KEY ("tenant_id","name")
);

-- CreateTable
CREATE TABLE "sessions" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "title" TEXT,
    "end_user" TEXT,
    "metadata" JSONB NOT NULL DEFAULT '{}',
    "last_seq" BIGINT NOT NULL DEFAULT 0,
    "active_tools" JSONB,
    "created_by" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "archived_at" TIMESTAMPTZ(3),

    CONSTRAINT "sessions_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "runs" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "status" TEXT NOT NULL,
    "stop_reason" TEXT,
    "end_message" TEXT,
    "end_by" TEXT,
    "agent" TEXT NOT NULL,
    "mode" TEXT,
    "config" JSONB NOT NULL,
    "principal" JSONB NOT NULL,
    "metadata" JSONB NOT NULL,
    "extension_metadata" JSONB NOT NULL DEFAULT '{}',
    "scratchpad" JSONB NOT NULL DEFAULT '{}',
    "start" JSONB,
    "on_busy" TEXT NOT NULL,
    "position" BIGINT NOT NULL,
    "doorbell" INTEGER NOT NULL DEFAULT 0,
    "rung_at" TIMESTAMPTZ(3),
    "lease_token" INTEGER NOT NULL DEFAULT 0,
    "lease_until" TIMESTAMPTZ(3),
    "leased_at" TIMESTAMPTZ(3),
    "idle_attempts" INTEGER NOT NULL DEFAULT 0,
    "cancel_requested_at" TIMESTAMPTZ(3),
    "cancel_requested_by" TEXT,
    "cancel_reason" TEXT,
    "approval_id" UUID,
    "input_tokens" BIGINT NOT NULL DEFAULT 0,
    "output_tokens" BIGINT NOT NULL DEFAULT 0,
    "turns" INTEGER NOT NULL DEFAULT 0,
    "tool_calls" INTEGER NOT NULL DEFAULT 0,
    "elapsed_ms" BIGINT NOT NULL DEFAULT 0,
    "traceparent" TEXT,
    "tracestate" TEXT,
    "created_by" TEXT NOT NULL,
    "request_id" TEXT NOT NULL,
    "first_seq" BIGINT NOT NULL,
    "ended_seq" BIGINT,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "queued_at" TIMESTAMPTZ(3),
    "started_at" TIMESTAMPTZ(3),
    "ended_at" TIMESTAMPTZ(3),

    CONSTRAINT "runs_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "messages" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID,
    "turn_id" UUID,
    "role" TEXT NOT NULL,
    "kind" TEXT,
    "content" JSONB NOT NULL,
    "tool_calls" JSONB,
    "attachments" JSONB,
    "position" BIGINT NOT NULL,
    "event_seq" BIGINT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "messages_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "turns" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID NOT NULL,
    "iteration" INTEGER NOT NULL,
    "status" TEXT NOT NULL,
    "tools" JSONB NOT NULL DEFAULT '[]',
    "input_tokens" BIGINT NOT NULL DEFAULT 0,
    "output_tokens" BIGINT NOT NULL DEFAULT 0,
    "finish_reason" TEXT,
    "restarts" INTEGER NOT NULL DEFAULT 0,
    "started_at" TIMESTAMPTZ(3) NOT NULL,
    "completed_at" TIMESTAMPTZ(3),

    CONSTRAINT "turns_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "tool_calls" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID NOT NULL,
    "turn_id" UUID NOT NULL,
    "index" INTEGER NOT NULL,
    "name" TEXT NOT NULL,
    "arguments" JSONB NOT NULL,
    "provider_call_id" TEXT,
    "effect" TEXT NOT NULL,
    "state" TEXT NOT NULL,
    "digest" TEXT,
    "gate_version" TEXT,
    "gate_decision" TEXT,
    "gate_reasons" JSONB,
    "result" JSONB,
    "source" TEXT,
    "settled_by" TEXT,
    "denial_reason" TEXT,
    "execution_count" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "tool_calls_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "executions" (
    "call_id" UUID NOT NULL,
    "n" INTEGER NOT NULL,
    "tenant_id" UUID NOT NULL,
    "attempt" INTEGER NOT NULL,
    "state" TEXT NOT NULL,
    "error" TEXT,
    "started_at" TIMESTAMPTZ(3) NOT NULL,
    "ended_at" TIMESTAMPTZ(3),

    CONSTRAINT "executions_pkey" PRIMARY KEY ("call_id","n")
);

-- CreateTable
CREATE TABLE "approvals" (
    "id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID NOT NULL,
    "turn_id" UUID NOT NULL,
    "status" TEXT NOT NULL,
    "supersedes" UUID,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "decided_at" TIMESTAMPTZ(3),

    CONSTRAINT "approvals_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "approval_calls" (
    "approval_id" UUID NOT NULL,
    "call_id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "index" INTEGER NOT NULL,
    "tool" TEXT NOT NULL,
    "arguments" JSONB NOT NULL,
    "digest" TEXT NOT NULL,
    "gate_version" TEXT NOT NULL,
    "reasons" JSONB NOT NULL,
    "decision" TEXT,
    "scope" TEXT,
    "edited_arguments" JSONB,
    "reason" TEXT,
    "decided_by" TEXT,
    "decided_by_id" TEXT,
    "decided_at" TIMESTAMPTZ(3),

    CONSTRAINT "approval_calls_pkey" PRIMARY KEY ("approval_id","call_id")
);

-- CreateTable
CREATE TABLE "events" (
    "session_id" UUID NOT NULL,
    "seq" BIGINT NOT NULL,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL,
    "event_id" UUID NOT NULL,
    "tenant_id" UUID NOT NULL,
    "run_id" UUID,
    "turn_id" UUID,
    "attempt" INTEGER,
    "type" TEXT NOT NULL,
    "version" INTEGER NOT NULL DEFAULT 1,
    "payload" JSONB NOT NULL,
    "txid" xid8 NOT NULL DEFAULT pg_current_xact_id(),

    CONSTRAINT "events_pkey" PRIMARY KEY ("session_id","seq","occurred_at")
);

-- CreateTable
CREATE TABLE "hook_audit" (
    "id" BIGSERIAL NOT NULL,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "run_id" UUID,
    "turn_id" UUID,
    "call_id" UUID,
    "request_id" TEXT,
    "attempt" INTEGER,
    "gate" TEXT NOT NULL,
    "port" TEXT,
    "hook" TEXT NOT NULL,
    "version" TEXT,
    "policy_version" TEXT,
    "generation" INTEGER,
    "outcome" TEXT NOT NULL,
    "reason" TEXT,
    "started_ms" DOUBLE PRECISION NOT NULL,
    "duration_ms" DOUBLE PRECISION NOT NULL,
    "queue_ms" DOUBLE PRECISION NOT NULL,

    CONSTRAINT "hook_audit_pkey" PRIMARY KEY ("id","occurred_at")
);

-- CreateTable
CREATE TABLE "admin_audit" (
    "id" BIGSERIAL NOT NULL,
    "occurred_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "tenant_id" UUID NOT NULL,
    "actor" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "target" TEXT NOT NULL,
    "detail" JSONB NOT NULL DEFAULT '{}',

    CONSTRAINT "admin_audit_pkey" PRIMARY KEY ("id","occurred_at")
);

-- CreateTable
CREATE TABLE "memory" (
    "tenant_id" UUID NOT NULL,
    "scope" TEXT NOT NULL,
    "owner" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "text" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "memory_pkey" PRIMARY KEY ("tenant_id","scope","owner","name")
);

-- CreateTable
CREATE TABLE "idempotency_keys" (
    "tenant_id" UUID NOT NULL,
    "route" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "body_digest" TEXT NOT NULL,
    "owner_token" TEXT NOT NULL,
    "status" INTEGER,
    "body" JSONB,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("tenant_id","route","key")
);

-- CreateTable
CREATE TABLE "plugin_chains" (
    "tenant_id" UUID NOT NULL,
    "epoch" BIGINT NOT NULL DEFAULT 1,
    "snapshot" JSONB,
    "snapshot_epoch" BIGINT,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "plugin_chains_pkey" PRIMARY KEY ("tenant_id")
);

-- CreateTable
CREATE TABLE "disabled_plugins" (
    "tenant_id" UUID NOT NULL,
    "plugin" TEXT NOT NULL,
    "disabled_by" TEXT NOT NULL,
    "reason" TEXT,
    "disabled_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "disabled_plugins_pkey" PRIMARY KEY ("tenant_id","plugin")
);

-- CreateIndex
CREATE UNIQUE INDEX "tenants_name_key" ON "tenants"("name");

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_hash_key" ON "api_keys"("hash");

-- CreateIndex
CREATE INDEX "api_keys_tenant_id_idx" ON "api_keys"("tenant_id");

-- CreateIndex
CREATE INDEX "sessions_tenant_id_created_at_idx" ON "sessions"("tenant_id", "created_at");

-- CreateIndex
CREATE UNIQUE INDEX "sessions_tenant_id_id_key" ON "sessions"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "runs_session_id_position_idx" ON "runs"("session_id", "position");

-- CreateIndex
CREATE INDEX "runs_tenant_id_position_idx" ON "runs"("tenant_id", "position");

-- CreateIndex
CREATE UNIQUE INDEX "runs_tenant_id_id_key" ON "runs"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "messages_session_id_event_seq_idx" ON "messages"("session_id", "event_seq");

-- CreateIndex
CREATE UNIQUE INDEX "turns_tenant_id_id_key" ON "turns"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "turns_run_id_iteration_key" ON "turns"("run_id", "iteration");

-- CreateIndex
CREATE INDEX "tool_calls_run_id_idx" ON "tool_calls"("run_id");

-- CreateIndex
CREATE INDEX "tool_calls_turn_id_index_idx" ON "tool_calls"("turn_id", "index");

-- CreateIndex
CREATE UNIQUE INDEX "tool_calls_tenant_id_id_key" ON "tool_calls"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "approvals_tenant_id_status_created_at_idx" ON "approvals"("tenant_id", "status", "created_at");

-- CreateIndex
CREATE INDEX "approvals_run_id_idx" ON "approvals"("run_id");

-- CreateIndex
CREATE UNIQUE INDEX "approvals_tenant_id_id_key" ON "approvals"("tenant_id", "id");

-- CreateIndex
CREATE UNIQUE INDEX "events_session_id_seq_key" ON "events"("session_id", "seq");

-- CreateIndex
CREATE INDEX "hook_audit_run_id_id_idx" ON "hook_audit"("run_id", "id");

-- CreateIndex
CREATE INDEX "hook_audit_session_id_id_idx" ON "hook_audit"("session_id", "id");

-- CreateIndex
CREATE INDEX "admin_audit_tenant_id_id_idx" ON "admin_audit"("tenant_id", "id");

-- CreateIndex
CREATE INDEX "idempotency_keys_expires_at_idx" ON "idempotency_keys"("expires_at");

-- AddForeignKey
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "agents" ADD CONSTRAINT "agents_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "runs" ADD CONSTRAINT "runs_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "messages" ADD CONSTRAINT "messages_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "messages" ADD CONSTRAINT "messages_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "messages" ADD CONSTRAINT "messages_tenant_id_turn_id_fkey" FOREIGN KEY ("tenant_id", "turn_id") REFERENCES "turns"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "turns" ADD CONSTRAINT "turns_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "turns" ADD CONSTRAINT "turns_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "tool_calls" ADD CONSTRAINT "tool_calls_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "tool_calls" ADD CONSTRAINT "tool_calls_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "tool_calls" ADD CONSTRAINT "tool_calls_tenant_id_turn_id_fkey" FOREIGN KEY ("tenant_id", "turn_id") REFERENCES "turns"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "executions" ADD CONSTRAINT "executions_tenant_id_call_id_fkey" FOREIGN KEY ("tenant_id", "call_id") REFERENCES "tool_calls"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_tenant_id_turn_id_fkey" FOREIGN KEY ("tenant_id", "turn_id") REFERENCES "turns"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approval_calls" ADD CONSTRAINT "approval_calls_tenant_id_approval_id_fkey" FOREIGN KEY ("tenant_id", "approval_id") REFERENCES "approvals"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "approval_calls" ADD CONSTRAINT "approval_calls_tenant_id_call_id_fkey" FOREIGN KEY ("tenant_id", "call_id") REFERENCES "tool_calls"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "events" ADD CONSTRAINT "events_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "events" ADD CONSTRAINT "events_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "hook_audit" ADD CONSTRAINT "hook_audit_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "hook_audit" ADD CONSTRAINT "hook_audit_tenant_id_run_id_fkey" FOREIGN KEY ("tenant_id", "run_id") REFERENCES "runs"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "admin_audit" ADD CONSTRAINT "admin_audit_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "memory" ADD CONSTRAINT "memory_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "plugin_chains" ADD CONSTRAINT "plugin_chains_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "disabled_plugins" ADD CONSTRAINT "disabled_plugins_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;



-- ─── What Prisma cannot express ──────────────────────────────────────────────────────────────────────────────────────

ALTER TABLE "tenants" ADD CONSTRAINT "tenants_cap" CHECK ("max_concurrent_runs" IS NULL OR "max_concurrent_runs" > 0);
ALTER TABLE "tenants" ADD CONSTRAINT "tenants_in_flight" CHECK ("in_flight" >= 0);
ALTER TABLE "runs" ADD CONSTRAINT "runs_status" CHECK ("status" IN
  ('pending', 'queued', 'running', 'waiting_approval', 'completed', 'failed', 'cancelled', 'timed_out', 'blocked'));
ALTER TABLE "runs" ADD CONSTRAINT "runs_end" CHECK (
  ("status" IN ('completed', 'failed', 'cancelled', 'timed_out', 'blocked'))
    = ("stop_reason" IS NOT NULL AND "ended_at" IS NOT NULL AND "ended_seq" IS NOT NULL));
ALTER TABLE "runs" ADD CONSTRAINT "runs_stop_reason" CHECK ("stop_reason" IS NULL OR CASE "status"
  WHEN 'completed' THEN "stop_reason" IN ('completed', 'stopped_by_hook')
  WHEN 'failed' THEN "stop_reason" IN
    ('model_error', 'tool_error', 'max_turns', 'max_tool_calls', 'budget_exceeded', 'crash_loop', 'hook_error')
  WHEN 'cancelled' THEN "stop_reason" IN ('cancelled', 'interrupted')
  WHEN 'timed_out' THEN "stop_reason" = 'timeout'
  WHEN 'blocked' THEN "stop_reason" IN ('blocked_by_hook', 'aborted_by_hook', 'gate_timeout', 'gate_unavailable')
  ELSE FALSE END);
ALTER TABLE "runs" ADD CONSTRAINT "runs_waiting" CHECK (("status" = 'waiting_approval') = ("approval_id" IS NOT NULL));
ALTER TABLE "turns" ADD CONSTRAINT "turns_status" CHECK ("status" IN ('open', 'replied', 'completed'));
ALTER TABLE "tool_calls" ADD CONSTRAINT "tool_calls_state" CHECK ("state" IN
  ('proposed', 'failed', 'blocked', 'skipped', 'awaiting_approval', 'approved', 'denied', 'executing', 'succeeded',
   'unknown', 'cancelled'));
ALTER TABLE "tool_calls" ADD CONSTRAINT "tool_calls_effect" CHECK ("effect" IN ('pure', 'idempotent', 'effectful'));
ALTER TABLE "executions" ADD CONSTRAINT "executions_state"
  CHECK ("state" IN ('executing', 'succeeded', 'failed', 'unknown') AND "n" > 0);
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_status" CHECK ("status" IN ('open', 'decided', 'expired', 'void'));
ALTER TABLE "approval_calls" ADD CONSTRAINT "approval_calls_decision"
  CHECK ("decision" IN ('approve', 'deny') AND ("decision" IS NULL) = ("decided_by" IS NULL));
ALTER TABLE "memory" ADD CONSTRAINT "memory_scope" CHECK ("scope" IN ('session', 'user', 'tenant'));
ALTER TABLE "events" ADD CONSTRAINT "events_seq" CHECK ("seq" > 0);

-- A session has at most one active run.
CREATE UNIQUE INDEX "runs_one_active" ON "runs" ("session_id")
  WHERE "status" IN ('queued', 'running', 'waiting_approval');
-- A run has at most one terminal event.
CREATE UNIQUE INDEX "events_one_end" ON "events" ("run_id")
  WHERE "type" IN ('run.completed', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.blocked');
-- A tenant has at most one live key of a name.
CREATE UNIQUE INDEX "api_keys_live_name" ON "api_keys" ("tenant_id", "name") WHERE "revoked_at" IS NULL;
CREATE INDEX "runs_pending_by_tenant" ON "runs" ("tenant_id", "position") WHERE "status" = 'pending';
CREATE INDEX "runs_pending_by_session" ON "runs" ("session_id", "position") WHERE "status" = 'pending';
CREATE INDEX "runs_due" ON "runs" ("status", "tenant_id") WHERE "status" IN ('queued', 'running');
CREATE INDEX "runs_cancelling" ON "runs" ("cancel_requested_at")
  WHERE "cancel_requested_at" IS NOT NULL AND "status" IN ('pending', 'queued', 'running', 'waiting_approval');
CREATE INDEX "approvals_open" ON "approvals" ("expires_at") WHERE "status" = 'open';

-- Rows that change often stay on their page.
ALTER TABLE "runs" SET (fillfactor = 70);
ALTER TABLE "sessions" SET (fillfactor = 70);
ALTER TABLE "tool_calls" SET (fillfactor = 80);

CREATE SEQUENCE "codedock_run_position" AS bigint;

INSERT INTO "tenants" ("id", "name") VALUES ('00000000-0000-0000-0000-000000000000', 'installation');
INSERT INTO "plugin_chains" ("tenant_id") VALUES ('00000000-0000-0000-0000-000000000000');

-- ─── Functions ───────────────────────────────────────────────────────────────────────────────────────────────────────
--
-- One round trip each. Rules that hold for all of them:
--  * The fence is a row lock: the run row is locked FOR NO KEY UPDATE first and judged by what the lock returned. A token
--    in a WHERE clause, an EXISTS or a join is no fence: under READ COMMITTED it is judged on the old snapshot.
--  * Lock order: tenant → run → session. Whoever takes a second run or session on top of that uses SKIP LOCKED.
--  * Whatever makes a session busy or idle happens under that session's row lock.
--  * Nothing here notifies: pushing follows the commit.
--  * Refusals carry SQLSTATE CD001, the product's error code in HINT; CD002 asks the caller to run the function again.

CREATE FUNCTION codedock_time(t timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION codedock_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
  SELECT date_trunc('milliseconds', clock_timestamp())
$$;

CREATE FUNCTION codedock_is_terminal(status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT status IN ('completed', 'failed', 'cancelled', 'timed_out', 'blocked')
$$;

-- Views are built with the outer nulls stripped and foreign JSON added afterwards: its nulls are values.

CREATE FUNCTION codedock_event_view(e events) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'eventId', e.event_id, 'type', e.type, 'sessionId', e.session_id, 'runId', e.run_id, 'turnId', e.turn_id,
      'attempt', e.attempt, 'seq', e.seq, 'version', e.version, 'occurredAt', codedock_time(e.occurred_at)))
    || jsonb_build_object('payload', e.payload)
$$;

CREATE FUNCTION codedock_message_view(m messages) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', m.id, 'sessionId', m.session_id, 'runId', m.run_id, 'turnId', m.turn_id, 'role', m.role, 'kind', m.kind,
      'eventSeq', m.event_seq, 'createdAt', codedock_time(m.created_at)))
    || jsonb_build_object('content', m.content)
    || CASE WHEN m.tool_calls IS NULL THEN '{}' ELSE jsonb_build_object('toolCalls', m.tool_calls) END
    || CASE WHEN m.attachments IS NULL THEN '{}' ELSE jsonb_build_object('attachments', m.attachments) END
$$;

CREATE FUNCTION codedock_call_view(c tool_calls) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', c.id, 'turnId', c.turn_id, 'index', c.index, 'name', c.name, 'providerCallId', c.provider_call_id,
      'state', c.state, 'effect', c.effect, 'executions', c.execution_count, 'denialReason', c.denial_reason))
    || jsonb_build_object('arguments', c.arguments)
    || CASE WHEN c.digest IS NULL THEN '{}' ELSE jsonb_build_object('gated', jsonb_build_object(
         'digest', c.digest, 'gateVersion', c.gate_version, 'decision', c.gate_decision, 'reasons', c.gate_reasons)) END
    || CASE WHEN c.result IS NULL THEN '{}' ELSE jsonb_build_object('result', c.result) END
$$;

CREATE FUNCTION codedock_run_view(r runs, p_last_seq bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', r.id, 'sessionId', r.session_id, 'status', r.status, 'stopReason', r.stop_reason, 'message', r.end_message,
      'by', r.end_by, 'agent', r.agent, 'mode', r.mode, 'attempt', r.lease_token,
      'usage', jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens),
      'turns', r.turns, 'toolCalls', r.tool_calls, 'approvalId', r.approval_id,
      'cancelRequested', r.cancel_requested_at IS NOT NULL, 'createdBy', r.created_by,
      'createdAt', codedock_time(r.created_at), 'startedAt', codedock_time(r.started_at),
      'endedAt', codedock_time(r.ended_at),
      'position', CASE WHEN r.status = 'pending' THEN r.position END,
      'firstSeq', r.first_seq, 'lastSeq', coalesce(r.ended_seq, p_last_seq)))
    || jsonb_build_object('metadata', r.metadata)
$$;

CREATE FUNCTION codedock_trace_view(r runs) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('traceparent', r.traceparent, 'tracestate', r.tracestate))
$$;

CREATE FUNCTION codedock_ring_view(r runs, p_in_flight integer) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_object('runId', r.id, 'doorbell', r.doorbell, 'priority', greatest(p_in_flight, 1),
    'trace', codedock_trace_view(r))
$$;

CREATE FUNCTION codedock_approval_view(a approvals) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'id', a.id, 'sessionId', a.session_id, 'runId', a.run_id, 'turnId', a.turn_id, 'status', a.status,
      'supersedes', a.supersedes, 'createdAt', codedock_time(a.created_at), 'expiresAt', codedock_time(a.expires_at),
      'decidedAt', codedock_time(a.decided_at)))
    || jsonb_build_object('calls', (
      SELECT coalesce(jsonb_agg(
          jsonb_strip_nulls(jsonb_build_object(
            'callId', c.call_id, 'tool', c.tool, 'digest', c.digest, 'gateVersion', c.gate_version,
            'decision', c.decision, 'reason', c.reason, 'decidedBy', c.decided_by,
            'decidedAt', codedock_time(c.decided_at)))
          || jsonb_build_object('arguments', c.arguments, 'reasons', c.reasons) ORDER BY c.index), '[]')
      FROM approval_calls c WHERE c.approval_id = a.id))
$$;

-- What onRunEnd is told with.
CREATE FUNCTION codedock_ending_view(r runs) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
      'tenantId', r.tenant_id, 'sessionId', r.session_id, 'runId', r.id, 'status', r.status, 'attempt', r.lease_token,
      'cancelReason', r.cancel_reason))
    || jsonb_build_object('principal', r.principal, 'scratchpad', r.scratchpad, 'metadata', r.extension_metadata)
$$;

-- May a tool call go from one state to the other? The same state again carries new facts of that state.
CREATE FUNCTION codedock_may_move_call(p_from text, p_to text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE p_from
    WHEN 'proposed' THEN p_to IN
      ('proposed', 'failed', 'blocked', 'skipped', 'awaiting_approval', 'executing', 'denied', 'cancelled')
    WHEN 'awaiting_approval' THEN p_to IN ('approved', 'denied', 'cancelled')
    WHEN 'approved' THEN p_to IN
      ('approved', 'executing', 'awaiting_approval', 'blocked', 'skipped', 'failed', 'cancelled')
    WHEN 'denied' THEN p_to = 'denied'
    WHEN 'executing' THEN p_to IN ('executing', 'succeeded', 'failed', 'unknown')
    WHEN 'unknown' THEN p_to IN ('succeeded', 'failed', 'approved')
    ELSE FALSE
  END
$$;

-- Bytes of the compact JSON text: jsonb's own text has a space after every colon and comma.
CREATE FUNCTION codedock_json_bytes(p_value jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT octet_length(p_value::text) - coalesce((
    SELECT sum(CASE jsonb_typeof(node)
      WHEN 'object' THEN greatest(2 * (SELECT count(*) FROM jsonb_object_keys(node)) - 1, 0)
      WHEN 'array' THEN greatest(jsonb_array_length(node) - 1, 0)
      ELSE 0 END)
    FROM jsonb_path_query(p_value, 'strict $.**') AS node), 0)
$$;

CREATE FUNCTION codedock_store_records(p_records jsonb, p_run uuid, p_now timestamptz) RETURNS void LANGUAGE sql AS $$
  INSERT INTO hook_audit (occurred_at, tenant_id, session_id, run_id, turn_id, call_id, request_id, attempt, gate, port,
    hook, version, policy_version, generation, outcome, reason, started_ms, duration_ms, queue_ms)
  SELECT p_now, s."tenantId", s."sessionId", coalesce(s."runId", p_run), s."turnId", s."callId", s."requestId",
    s.attempt, d.gate, d.port, d.hook, d.version, d."policyVersion", d.generation, d.outcome, d.reason,
    d."startedMs", d."durationMs", d."queueMs"
  FROM jsonb_array_elements(p_records) WITH ORDINALITY AS e(entry, ord),
    jsonb_to_record(e.entry->'site') AS s("tenantId" uuid, "sessionId" uuid, "runId" uuid, "turnId" uuid, "callId" uuid,
      "requestId" text, attempt integer),
    jsonb_to_record(e.entry->'record') AS d(gate text, port text, hook text, version text, "policyVersion" text,
      generation integer, outcome text, reason text, "startedMs" float8, "durationMs" float8, "queueMs" float8)
  ORDER BY e.ord
$$;

-- Lays patches over a run's bag, in order. A key that no longer has the value its gate was sent is a conflict (the later
-- wins); an update that would make the bag larger than 8 KiB is dropped. Both are recorded.
CREATE FUNCTION codedock_merge_scratchpad(r runs, p_patches jsonb, p_now timestamptz) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_bag jsonb := r.scratchpad;
  v_next jsonb;
  v_entry jsonb;
  v_deleted text[];
  v_conflicts text;
BEGIN
  FOR v_entry IN SELECT value FROM jsonb_array_elements(p_patches) LOOP
    v_deleted := ARRAY(SELECT jsonb_array_elements_text(v_entry#>'{patch,deleted}'));
    v_next := (v_bag - v_deleted) || (v_entry#>'{patch,set}');
    IF octet_length(v_next::text) > 8192 AND codedock_json_bytes(v_next) > 8192 THEN
      PERFORM codedock_note_scratchpad(r, v_entry->>'gate', 'oversize',
        'scratchpad: an update was dropped, the bag would exceed 8192 bytes', p_now);
      CONTINUE;
    END IF;
    IF v_entry ? 'sent' THEN
      SELECT string_agg(key, ', ' ORDER BY key) INTO v_conflicts
      FROM (SELECT jsonb_object_keys(v_entry#>'{patch,set}') AS key UNION SELECT unnest(v_deleted)) AS touched
      WHERE (v_bag->key) IS DISTINCT FROM (v_entry->'sent'->key);
      IF v_conflicts IS NOT NULL THEN
        PERFORM codedock_note_scratchpad(r, v_entry->>'gate', 'changed', 'scratchpad.conflict: ' || v_conflicts, p_now);
      END IF;
    END IF;
    v_bag := v_next;
  END LOOP;
  RETURN v_bag;
END
$$;

CREATE FUNCTION codedock_note_scratchpad(r runs, p_gate text, p_outcome text, p_reason text, p_now timestamptz)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO hook_audit (occurred_at, tenant_id, session_id, run_id, attempt, gate, hook, outcome, reason, started_ms,
    duration_ms, queue_ms)
  VALUES (p_now, r.tenant_id, r.session_id, r.id, r.lease_token, coalesce(p_gate, 'scratchpad'), 'host', p_outcome,
    left(p_reason, 1024), 0, 0, 0)
$$;

-- Tool calls of a batch: seals compared, transitions judged, rows written. The run row is locked by the caller.
CREATE FUNCTION codedock_write_calls(r runs, p_calls jsonb, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_bad record;
BEGIN
  SELECT t.id, t.state AS old_state, c.state AS new_state,
      c.expect IS NOT NULL AND (t.digest IS DISTINCT FROM c.expect->>'digest'
        OR t.gate_version IS DISTINCT FROM c.expect->>'gateVersion') AS broken
    INTO v_bad
    FROM jsonb_to_recordset(p_calls) AS c(id uuid, state text, effect text, result jsonb, expect jsonb)
    JOIN tool_calls t ON t.id = c.id
    WHERE t.run_id <> r.id
      OR NOT codedock_may_move_call(t.state, c.state)
      OR (t.state = 'denied' AND t.result IS NOT NULL)
      -- What may have taken effect is not done again, unless a person said so (unknown → approved).
      OR (c.state = 'executing' AND t.state = 'executing' AND t.effect = 'effectful')
      OR (c.expect IS NOT NULL AND (t.digest IS DISTINCT FROM c.expect->>'digest'
        OR t.gate_version IS DISTINCT FROM c.expect->>'gateVersion'))
    ORDER BY t.index
    LIMIT 1;
  IF FOUND THEN
    IF v_bad.broken THEN
      RAISE EXCEPTION 'Tool call % was sealed with other arguments or asked of other plugins; it goes back to its gate.', v_bad.id
        USING ERRCODE = 'CD001', HINT = 'seal_broken';
    END IF;
    RAISE EXCEPTION 'Tool call % may not go from % to %.', v_bad.id, v_bad.old_state, v_bad.new_state
      USING ERRCODE = 'CD001', HINT = 'invariant_broken';
  END IF;
  INSERT INTO tool_calls AS t (id, tenant_id, session_id, run_id, turn_id, index, name, arguments, provider_call_id,
      effect, state, digest, gate_version, gate_decision, gate_reasons, result, source, settled_by, created_at, updated_at)
    SELECT c.id, r.tenant_id, r.session_id, r.id, coalesce(c."turnId", o.turn_id), coalesce(c.index, o.index),
      coalesce(c.name, o.name), coalesce(c.arguments, o.arguments), c."providerCallId", coalesce(c.effect, o.effect),
      c.state, c.gated->>'digest', c.gated->>'gateVersion', c.gated->>'decision', c.gated->'reasons', c.result,
      c.source, c.by, p_now, p_now
    FROM jsonb_to_recordset(p_calls) AS c(id uuid, "turnId" uuid, index integer, name text, arguments jsonb,
      "providerCallId" text, effect text, state text, gated jsonb, result jsonb, source text, by text)
    LEFT JOIN tool_calls o ON o.id = c.id
    ON CONFLICT (id) DO UPDATE SET
      state = excluded.state,
      arguments = excluded.arguments,
      effect = excluded.effect,
      digest = coalesce(excluded.digest, t.digest),
      gate_version = coalesce(excluded.gate_version, t.gate_version),
      gate_decision = coalesce(excluded.gate_decision, t.gate_decision),
      gate_reasons = coalesce(excluded.gate_reasons, t.gate_reasons),
      result = coalesce(excluded.result, t.result),
      source = coalesce(excluded.source, t.source),
      settled_by = coalesce(excluded.settled_by, t.settled_by),
      updated_at = excluded.updated_at;
END
$$;

CREATE FUNCTION codedock_write_executions(r runs, p_executions jsonb, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  v_entry record;
BEGIN
  FOR v_entry IN SELECT * FROM jsonb_to_recordset(p_executions) AS x("callId" uuid, n integer, state text, error text) LOOP
    IF v_entry.state = 'executing' THEN
      -- No ON CONFLICT: a second start of (call, n) must fail.
      INSERT INTO executions (call_id, n, tenant_id, attempt, state, started_at)
        VALUES (v_entry."callId", v_entry.n, r.tenant_id, r.lease_token, 'executing', p_now);
      UPDATE tool_calls SET execution_count = greatest(execution_count, v_entry.n) WHERE id = v_entry."callId";
    ELSE
      UPDATE executions SET state = v_entry.state, error = v_entry.error, ended_at = p_now
        WHERE call_id = v_entry."callId" AND n = v_entry.n AND tenant_id = r.tenant_id;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'Execution % of tool call % was never started.', v_entry.n, v_entry."callId"
          USING ERRCODE = 'CD001', HINT = 'invariant_broken';
      END IF;
    END IF;
  END LOOP;
END
$$;

-- The one place where events get their seq. The run, if any, is locked by the caller; here the session row is, and its
-- last_seq raised by as many as there are events.
CREATE FUNCTION codedock_write(r runs, p_tenant uuid, p_session uuid, p_attempt integer, p_events jsonb, p_changes jsonb,
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

-- Locks a run for a writer and judges it by what the lock returned.
CREATE FUNCTION codedock_lock_run(p_tenant uuid, p_session uuid, p_run uuid, p_token integer) RETURNS runs
LANGUAGE plpgsql AS $$
DECLARE
  r runs;
BEGIN
  SELECT * INTO r FROM runs WHERE id = p_run AND tenant_id = p_tenant AND session_id = p_session FOR NO KEY UPDATE;
  IF p_token IS NULL THEN
    IF NOT FOUND THEN
      RAISE EXCEPTION 'There is no run %.', p_run USING ERRCODE = 'CD001', HINT = 'not_found';
    ELSIF codedock_is_terminal(r.status) THEN
      RAISE EXCEPTION 'Run % has ended (%).', p_run, r.status USING ERRCODE = 'CD001', HINT = 'run_ended';
    END IF;
  ELSIF NOT FOUND OR r.lease_token <> p_token OR r.lease_until IS NULL OR codedock_is_terminal(r.status) THEN
    RAISE EXCEPTION 'Attempt % no longer owns run %.', p_token, p_run USING ERRCODE = 'CD001', HINT = 'lease_lost';
  END IF;
  RETURN r;
END
$$;

CREATE FUNCTION codedock_append(p_batch jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_tenant uuid := p_batch->>'tenantId';
  v_session uuid := p_batch->>'sessionId';
  v_token integer := p_batch#>>'{run,token}';
  v_now timestamptz;
  r runs;
  w record;
BEGIN
  IF p_batch ? 'run' THEN
    r := codedock_lock_run(v_tenant, v_session, (p_batch#>>'{run,runId}')::uuid, v_token);
  END IF;
  v_now := codedock_now();
  SELECT * INTO w FROM codedock_write(r, v_tenant, v_session, v_token, p_batch->'events',
    coalesce(p_batch->'changes', '{}'), v_now);
  RETURN jsonb_build_object('firstSeq', w.first_seq, 'lastSeq', w.last_seq, 'occurredAt', codedock_time(v_now))
    || CASE WHEN w.scratchpad IS NULL THEN '{}' ELSE jsonb_build_object('scratchpad', w.scratchpad) END;
END
$$;

-- The cap of a tenant, its row locked when there is one.
CREATE FUNCTION codedock_lock_tenant(p_tenant uuid, OUT cap integer, OUT in_flight integer) LANGUAGE plpgsql AS $$
BEGIN
  SELECT t.max_concurrent_runs, t.in_flight INTO cap, in_flight FROM tenants t WHERE t.id = p_tenant;
  IF cap IS NOT NULL THEN
    SELECT t.max_concurrent_runs, t.in_flight INTO cap, in_flight FROM tenants t WHERE t.id = p_tenant FOR NO KEY UPDATE;
  END IF;
END
$$;

CREATE FUNCTION codedock_accept(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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

-- Stores a response under the claim's owner; a claim that was lost rolls everything back.
CREATE FUNCTION codedock_complete_claim(p_tenant uuid, p_claim jsonb, p_body jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE idempotency_keys SET status = (p_claim->>'status')::integer, body = p_body,
      expires_at = clock_timestamp() + interval '24 hours'
    WHERE tenant_id = p_tenant AND route = p_claim->>'route' AND key = p_claim->>'key'
      AND owner_token = p_claim->>'ownerToken' AND status IS NULL;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'Another request with this Idempotency-Key took over; nothing was created by this one.'
      USING ERRCODE = 'CD001', HINT = 'idempotency_in_progress';
  END IF;
END
$$;

CREATE FUNCTION codedock_claim(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_until timestamptz := v_now + (p_input->>'ttlMs')::bigint * interval '1 millisecond';
  k idempotency_keys;
BEGIN
  INSERT INTO idempotency_keys (tenant_id, route, key, body_digest, owner_token, expires_at)
    VALUES ((p_input->>'tenantId')::uuid, p_input->>'route', p_input->>'key', p_input->>'bodyDigest',
      p_input->>'ownerToken', v_until)
    ON CONFLICT (tenant_id, route, key) DO NOTHING;
  IF FOUND THEN RETURN '{"kind": "claimed"}'; END IF;
  SELECT * INTO k FROM idempotency_keys WHERE tenant_id = (p_input->>'tenantId')::uuid
    AND route = p_input->>'route' AND key = p_input->>'key' FOR UPDATE;
  IF NOT FOUND THEN RETURN '{"kind": "in_progress", "retryAfterMs": 0}'; END IF;
  IF k.expires_at <= clock_timestamp() THEN
    UPDATE idempotency_keys SET body_digest = p_input->>'bodyDigest', owner_token = p_input->>'ownerToken',
        status = NULL, body = NULL, expires_at = v_until
      WHERE tenant_id = k.tenant_id AND route = k.route AND key = k.key;
    RETURN '{"kind": "claimed"}';
  ELSIF k.body_digest <> p_input->>'bodyDigest' THEN
    RETURN '{"kind": "mismatch"}';
  ELSIF k.status IS NULL THEN
    RETURN jsonb_build_object('kind', 'in_progress', 'retryAfterMs',
      ceil(extract(epoch FROM k.expires_at - clock_timestamp()) * 1000));
  END IF;
  RETURN jsonb_build_object('kind', 'replay', 'response', jsonb_build_object('status', k.status, 'body', k.body));
END
$$;

CREATE FUNCTION codedock_take_lease(p_run uuid, p_ttl_ms integer) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
  w record;
  v_now timestamptz;
  v_was text;
  v_events jsonb := '[]';
  v_turn turns;
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
  SELECT * INTO v_turn FROM turns WHERE run_id = p_run AND status <> 'completed' ORDER BY iteration DESC LIMIT 1;
  RETURN jsonb_build_object(
    'kind', CASE WHEN r.idle_attempts > 5 THEN 'crash_loop' ELSE 'leased' END,
    'events', v_events,
    'trace', codedock_trace_view(r),
    'snapshot', jsonb_build_object(
        'runId', r.id, 'sessionId', r.session_id, 'tenantId', r.tenant_id, 'attempt', r.lease_token,
        'config', r.config, 'principal', r.principal, 'turns', r.turns, 'toolCalls', r.tool_calls,
        'usage', jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens),
        'scratchpad', r.scratchpad, 'metadata', r.extension_metadata,
        'cancelRequested', r.cancel_requested_at IS NOT NULL, 'elapsedMs', r.elapsed_ms,
        'messages', (SELECT coalesce(jsonb_agg(codedock_message_view(m) ORDER BY m.position, m.event_seq, m.id), '[]')
          FROM messages m WHERE m.session_id = r.session_id AND m.position <= r.position AND m.kind IS NULL))
      || CASE WHEN r.start IS NULL THEN '{}' ELSE jsonb_build_object('start', r.start) END
      || CASE WHEN v_turn.id IS NULL THEN '{}' ELSE jsonb_build_object('openTurn',
        jsonb_build_object('id', v_turn.id, 'iteration', v_turn.iteration, 'tools', v_turn.tools, 'calls', (
          SELECT coalesce(jsonb_agg(codedock_call_view(c) ORDER BY c.index), '[]')
          FROM tool_calls c WHERE c.turn_id = v_turn.id))
        || coalesce((SELECT jsonb_build_object('reply', codedock_message_view(m)) FROM messages m
          WHERE m.session_id = r.session_id AND m.turn_id = v_turn.id AND m.role = 'assistant' LIMIT 1), '{}')) END);
END
$$;

-- Wall time a lease was held until then, milliseconds.
CREATE FUNCTION codedock_lease_ms(r runs, p_until timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN r.status = 'running' AND r.leased_at IS NOT NULL AND p_until > r.leased_at
    THEN (extract(epoch FROM p_until - r.leased_at) * 1000)::bigint ELSE 0 END
$$;

CREATE FUNCTION codedock_hand_back(p_run uuid, p_token integer) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
  w record;
  v_now timestamptz;
  v_in_flight integer;
BEGIN
  SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
  IF NOT FOUND OR r.status <> 'running' OR r.lease_token <> p_token OR r.lease_until IS NULL THEN
    RETURN NULL;
  END IF;
  v_now := codedock_now();
  UPDATE runs SET status = 'queued', lease_until = NULL, leased_at = NULL, queued_at = v_now, doorbell = r.doorbell + 1,
      rung_at = v_now, idle_attempts = greatest(r.idle_attempts - 1, 0),
      elapsed_ms = r.elapsed_ms + codedock_lease_ms(r, v_now)
    WHERE id = p_run RETURNING * INTO r;
  SELECT * INTO w FROM codedock_write(r, r.tenant_id, r.session_id, p_token,
    jsonb_build_array(jsonb_build_object('eventId', gen_random_uuid(), 'type', 'run.state_changed', 'payload',
      '{"from": "running", "to": "queued"}'::jsonb)), '{}', v_now);
  SELECT in_flight INTO v_in_flight FROM tenants WHERE id = r.tenant_id;
  RETURN jsonb_build_object('ring', codedock_ring_view(r, v_in_flight), 'events', (
    SELECT jsonb_agg(codedock_event_view(e)) FROM events e WHERE e.session_id = r.session_id AND e.seq = w.first_seq));
END
$$;

-- Lets one pending run of the tenant take a free slot: of this session first (its row is locked by the caller), else, if
-- wanted, the oldest one of an idle session. The tenant is locked when capped, and the caller has seen that a slot is
-- free. Null when there is none, or none that could be locked without waiting: the sweep tries again.
CREATE FUNCTION codedock_admit_one(p_tenant uuid, p_session uuid, p_tenant_wide boolean, p_capped boolean, p_now timestamptz)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
  w record;
  v_in_flight integer;
BEGIN
  IF p_session IS NOT NULL THEN
    SELECT * INTO r FROM runs p WHERE p.session_id = p_session AND p.status = 'pending'
      AND NOT EXISTS (SELECT 1 FROM runs a WHERE a.session_id = p_session
        AND (a.status IN ('queued', 'running', 'waiting_approval') OR a.status = 'pending' AND a.position < p.position))
      ORDER BY p.position LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
  END IF;
  IF r.id IS NULL AND p_tenant_wide THEN
    SELECT * INTO r FROM runs p WHERE p.tenant_id = p_tenant AND p.status = 'pending'
      AND p.session_id IS DISTINCT FROM p_session
      AND NOT EXISTS (SELECT 1 FROM runs a WHERE a.session_id = p.session_id
        AND (a.status IN ('queued', 'running', 'waiting_approval') OR a.status = 'pending' AND a.position < p.position))
      ORDER BY p.position LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF r.id IS NOT NULL THEN
      PERFORM 1 FROM sessions WHERE id = r.session_id FOR NO KEY UPDATE SKIP LOCKED;
      -- Judged again under the session's lock: the snapshot that found the run idle is older than the lock.
      IF NOT FOUND OR EXISTS (SELECT 1 FROM runs a WHERE a.session_id = r.session_id
          AND a.status IN ('queued', 'running', 'waiting_approval')) THEN
        RETURN NULL;
      END IF;
    END IF;
  END IF;
  IF r.id IS NULL THEN
    RETURN NULL;
  END IF;
  UPDATE runs SET status = 'queued', queued_at = p_now, doorbell = r.doorbell + 1, rung_at = p_now
    WHERE id = r.id RETURNING * INTO r;
  SELECT * INTO w FROM codedock_write(r, r.tenant_id, r.session_id, NULL,
    jsonb_build_array(jsonb_build_object('eventId', gen_random_uuid(), 'type', 'run.state_changed', 'payload',
      '{"from": "pending", "to": "queued"}'::jsonb)), '{}', p_now);
  IF p_capped THEN
    UPDATE tenants SET in_flight = in_flight + 1 WHERE id = p_tenant RETURNING in_flight INTO v_in_flight;
  ELSE
    SELECT in_flight INTO v_in_flight FROM tenants WHERE id = p_tenant;
  END IF;
  RETURN jsonb_build_object('ring', codedock_ring_view(r, v_in_flight), 'sessionId', r.session_id, 'event', (
    SELECT codedock_event_view(e) FROM events e WHERE e.session_id = r.session_id AND e.seq = w.first_seq));
END
$$;

CREATE FUNCTION codedock_leave(p_batch jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_tenant uuid := p_batch->>'tenantId';
  v_session uuid := p_batch->>'sessionId';
  v_run uuid := p_batch#>>'{run,runId}';
  v_token integer := p_batch#>>'{run,token}';
  v_to jsonb := p_batch->'to';
  v_end jsonb := v_to->'end';
  v_approval jsonb := v_to->'approval';
  v_changes jsonb := coalesce(p_batch->'changes', '{}');
  v_limit record;
  v_now timestamptz;
  r runs;
  w record;
  v_first bigint;
  v_held_slot boolean;
  v_unknown jsonb;
  v_admitted jsonb;
BEGIN
  SELECT * INTO v_limit FROM codedock_lock_tenant(v_tenant);
  SELECT * INTO r FROM runs WHERE id = v_run AND tenant_id = v_tenant AND session_id = v_session FOR NO KEY UPDATE;
  IF codedock_is_terminal(r.status) THEN
    RETURN jsonb_build_object('applied', false, 'events', '[]'::jsonb, 'otherEvents', '[]'::jsonb, 'rings', '[]'::jsonb,
      'end', jsonb_build_object('status', r.status, 'stopReason', r.stop_reason));
  ELSIF r.id IS NULL OR r.lease_token <> v_token OR r.lease_until IS NULL
      OR v_approval IS NOT NULL AND r.status <> 'running' THEN
    RAISE EXCEPTION 'Attempt % no longer owns run %.', v_token, v_run USING ERRCODE = 'CD001', HINT = 'lease_lost';
  END IF;
  v_now := codedock_now();
  v_held_slot := r.status IN ('queued', 'running');
  -- The caller's facts first: they may settle calls.
  SELECT * INTO w FROM codedock_write(r, v_tenant, v_session, v_token, p_batch->'events', v_changes, v_now);
  v_first := w.first_seq;

  IF v_approval IS NOT NULL THEN
    INSERT INTO approvals (id, tenant_id, session_id, run_id, turn_id, status, supersedes, created_at, expires_at)
      VALUES ((v_approval->>'id')::uuid, v_tenant, v_session, v_run, (v_approval->>'turnId')::uuid, 'open',
        (v_approval->>'supersedes')::uuid, v_now, (v_approval->>'expiresAt')::timestamptz);
    INSERT INTO approval_calls (approval_id, call_id, tenant_id, index, tool, arguments, digest, gate_version, reasons)
      SELECT (v_approval->>'id')::uuid, c."callId", v_tenant, e.ord - 1, c.tool, c.arguments, c.digest, c."gateVersion",
        c.reasons
      FROM jsonb_array_elements(v_approval->'calls') WITH ORDINALITY AS e(entry, ord),
        jsonb_to_record(e.entry) AS c("callId" uuid, tool text, arguments jsonb, digest text, "gateVersion" text,
          reasons jsonb);
    PERFORM codedock_write_calls(r, (SELECT jsonb_agg(jsonb_build_object('id', c->>'callId', 'state', 'awaiting_approval',
        'expect', jsonb_build_object('digest', c->>'digest', 'gateVersion', c->>'gateVersion')))
      FROM jsonb_array_elements(v_approval->'calls') AS c), v_now);
    UPDATE runs SET status = 'waiting_approval', approval_id = (v_approval->>'id')::uuid, lease_until = NULL,
        leased_at = NULL, idle_attempts = 0, elapsed_ms = r.elapsed_ms + codedock_lease_ms(r, v_now)
      WHERE id = v_run;
    PERFORM codedock_write(r, v_tenant, v_session, v_token, jsonb_build_array(
      jsonb_build_object('eventId', gen_random_uuid(), 'type', 'tool.approval_required', 'turnId', v_approval->>'turnId',
        'payload', jsonb_build_object('approvalId', v_approval->>'id', 'calls', v_approval->'calls',
            'expiresAt', codedock_time((v_approval->>'expiresAt')::timestamptz))
          || CASE WHEN v_approval ? 'supersedes' THEN jsonb_build_object('supersedes', v_approval->>'supersedes')
             ELSE '{}' END),
      jsonb_build_object('eventId', gen_random_uuid(), 'type', 'run.state_changed', 'payload',
        '{"from": "running", "to": "waiting_approval"}'::jsonb)), '{}', v_now);
  ELSE
    SELECT jsonb_agg(jsonb_build_object('eventId', gen_random_uuid(), 'type', 'tool.outcome_unknown', 'turnId', c.turn_id,
        'payload', jsonb_build_object('callId', c.id, 'tool', c.name,
          'error', 'The run ended while the call was executing; whether it took effect is not known.')) ORDER BY c.index)
      INTO v_unknown FROM tool_calls c WHERE c.run_id = v_run AND c.state = 'executing';
    IF v_unknown IS NOT NULL THEN
      UPDATE executions x SET state = 'unknown', ended_at = v_now, error = 'the run ended'
        FROM tool_calls c WHERE c.run_id = v_run AND x.call_id = c.id AND x.state = 'executing';
    END IF;
    UPDATE tool_calls SET state = CASE WHEN state = 'executing' THEN 'unknown' ELSE 'cancelled' END, updated_at = v_now
      WHERE run_id = v_run AND state IN ('proposed', 'awaiting_approval', 'approved', 'executing');
    IF r.approval_id IS NOT NULL THEN
      UPDATE approvals SET status = 'void', decided_at = v_now WHERE id = r.approval_id AND status = 'open';
    END IF;
    SELECT * INTO r FROM runs WHERE id = v_run;
    SELECT * INTO w FROM codedock_write(r, v_tenant, v_session, v_token, coalesce(v_unknown, '[]') || jsonb_build_array(
      jsonb_build_object('eventId', gen_random_uuid(), 'type', 'run.' || (v_end->>'status'), 'payload',
        jsonb_strip_nulls(jsonb_build_object('stopReason', v_end->>'stopReason', 'message', v_end->>'message',
          'by', v_end->>'by', 'turns', r.turns,
          'usage', jsonb_build_object('inputTokens', r.input_tokens, 'outputTokens', r.output_tokens))))), '{}', v_now);
    UPDATE runs SET status = v_end->>'status', stop_reason = v_end->>'stopReason', end_message = v_end->>'message',
        end_by = v_end->>'by', ended_at = v_now, ended_seq = w.last_seq, lease_until = NULL, leased_at = NULL,
        approval_id = NULL, scratchpad = '{}', start = NULL,
        elapsed_ms = r.elapsed_ms + codedock_lease_ms(r, v_now)
      WHERE id = v_run;
  END IF;

  -- Admission, as statements of their own: each sees what the former did.
  IF v_limit.cap IS NOT NULL AND v_held_slot THEN
    UPDATE tenants SET in_flight = greatest(in_flight - 1, 0) WHERE id = v_tenant
      RETURNING in_flight INTO v_limit.in_flight;
  END IF;
  IF v_limit.cap IS NULL OR v_limit.in_flight < v_limit.cap THEN
    v_admitted := codedock_admit_one(v_tenant, v_session, v_limit.cap IS NOT NULL, v_limit.cap IS NOT NULL, v_now);
  END IF;
  RETURN jsonb_build_object(
      'applied', true,
      'events', (SELECT jsonb_agg(codedock_event_view(e) ORDER BY e.seq) FROM events e
        WHERE e.session_id = v_session AND e.seq >= v_first),
      'otherEvents', CASE WHEN v_admitted->>'sessionId' <> v_session::text THEN jsonb_build_array(v_admitted->'event')
        ELSE '[]' END,
      'rings', CASE WHEN v_admitted IS NULL THEN '[]' ELSE jsonb_build_array(v_admitted->'ring') END)
    || CASE WHEN v_end IS NULL THEN '{}' ELSE jsonb_build_object('end',
      jsonb_build_object('status', v_end->>'status', 'stopReason', v_end->>'stopReason')) END;
END
$$;

-- Recounts a tenant and admits pending runs while slots are free.
CREATE FUNCTION codedock_admit(p_tenant uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_limit record;
  v_counted integer;
  v_now timestamptz;
  v_admitted jsonb;
  v_rings jsonb := '[]';
  v_events jsonb := '[]';
BEGIN
  -- The row is locked even without a cap: only the sweep counts uncapped tenants.
  SELECT max_concurrent_runs AS cap, in_flight INTO v_limit FROM tenants WHERE id = p_tenant FOR NO KEY UPDATE;
  SELECT count(*) INTO v_counted FROM runs WHERE tenant_id = p_tenant AND status IN ('queued', 'running');
  UPDATE tenants SET in_flight = v_counted WHERE id = p_tenant AND in_flight <> v_counted;
  v_now := codedock_now();
  FOR i IN 1..100 LOOP
    EXIT WHEN v_counted >= v_limit.cap;
    v_admitted := codedock_admit_one(p_tenant, NULL, TRUE, TRUE, v_now);
    EXIT WHEN v_admitted IS NULL;
    v_counted := v_counted + 1;
    v_rings := v_rings || jsonb_build_array(v_admitted->'ring');
    v_events := v_events || jsonb_build_array(v_admitted->'event');
  END LOOP;
  RETURN jsonb_build_object('rings', v_rings, 'events', v_events);
END
$$;

CREATE FUNCTION codedock_due() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_rings jsonb;
BEGIN
  -- A queued run is rung again after 5 s, then after twice as long each time, at most 30 s: a long queue is not flooded.
  WITH due AS (
    SELECT id FROM runs
    WHERE status = 'queued' AND (lease_until IS NULL OR lease_until < v_now)
        AND coalesce(rung_at, queued_at) < v_now - least(30, 5 * 2 ^ least(greatest(doorbell - 1, 0), 3)) * interval '1 second'
      OR status = 'running' AND lease_until < v_now
        AND (rung_at IS NULL OR rung_at < lease_until OR rung_at < v_now - interval '5 seconds')
    ORDER BY position LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
  ), rung AS (
    UPDATE runs SET doorbell = runs.doorbell + 1, rung_at = v_now FROM due WHERE runs.id = due.id RETURNING runs.*
  )
  SELECT jsonb_agg(codedock_ring_view(r::runs, t.in_flight) ORDER BY r.position) INTO v_rings
    FROM rung r JOIN tenants t ON t.id = r.tenant_id;
  RETURN jsonb_build_object(
    'rings', coalesce(v_rings, '[]'),
    'cancels', coalesce((SELECT jsonb_agg(jsonb_build_object('tenantId', tenant_id, 'runId', id)) FROM runs
      WHERE cancel_requested_at < v_now - interval '2 seconds'
        AND status IN ('pending', 'queued', 'running', 'waiting_approval')), '[]'),
    'expiredApprovals', coalesce((SELECT jsonb_agg(jsonb_build_object('tenantId', tenant_id, 'approvalId', id))
      FROM approvals WHERE status = 'open' AND expires_at < v_now), '[]'),
    'tenants', coalesce((SELECT jsonb_agg(t.id ORDER BY t.id) FROM tenants t
      LEFT JOIN (SELECT tenant_id, count(*) AS n FROM runs WHERE status IN ('queued', 'running') GROUP BY tenant_id) AS c
        ON c.tenant_id = t.id
      WHERE t.in_flight <> coalesce(c.n, 0)
        OR EXISTS (SELECT 1 FROM runs p WHERE p.tenant_id = t.id AND p.status = 'pending')
          AND (t.max_concurrent_runs IS NULL OR coalesce(c.n, 0) < t.max_concurrent_runs)), '[]'));
END
$$;

CREATE FUNCTION codedock_request_cancel(p_tenant uuid, p_run uuid, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
BEGIN
  SELECT * INTO r FROM runs WHERE id = p_run AND tenant_id = p_tenant FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'There is no run %.', p_run USING ERRCODE = 'CD001', HINT = 'not_found';
  END IF;
  IF NOT codedock_is_terminal(r.status) AND r.cancel_requested_at IS NULL THEN
    UPDATE runs SET cancel_requested_at = codedock_now(), cancel_requested_by = p_actor, cancel_reason = 'cancelled'
      WHERE id = p_run RETURNING * INTO r;
  END IF;
  RETURN codedock_run_view(r, (SELECT last_seq FROM sessions WHERE id = r.session_id));
END
$$;

CREATE FUNCTION codedock_fence(p_run uuid, p_running boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  r runs;
  v_now timestamptz;
BEGIN
  SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
  IF NOT FOUND OR codedock_is_terminal(r.status) OR r.status = 'running' AND NOT p_running THEN
    RETURN NULL;
  END IF;
  v_now := codedock_now();
  UPDATE runs SET lease_token = r.lease_token + 1, lease_until = v_now + interval '15 seconds',
      leased_at = CASE WHEN r.status = 'running' THEN v_now END, elapsed_ms = r.elapsed_ms + codedock_lease_ms(r, v_now)
    WHERE id = p_run RETURNING * INTO r;
  RETURN codedock_ending_view(r) || jsonb_build_object('token', r.lease_token, 'executing', (
    SELECT coalesce(jsonb_agg(c.id ORDER BY c.index), '[]') FROM tool_calls c
    WHERE c.run_id = p_run AND c.state = 'executing'));
END
$$;

-- A person's word on calls of an approval, or, with `expire`, nobody's on those that are still open.
CREATE FUNCTION codedock_decide(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
  SELECT c.call_id INTO v_other FROM jsonb_to_recordset(v_decisions) AS d("callId" uuid, decision text, reason text)
    JOIN approval_calls c ON c.approval_id = a.id AND c.call_id = d."callId"
    WHERE c.decision IS NOT NULL AND (c.decision <> d.decision OR c.reason IS DISTINCT FROM d.reason) LIMIT 1;
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
  UPDATE approval_calls c SET decision = d.decision, reason = d.reason, scope = 'once', decided_by = v_actor->>'name',
      decided_by_id = v_actor->>'id', decided_at = v_now
    FROM jsonb_to_recordset(v_fresh) AS d("callId" uuid, decision text, reason text)
    WHERE c.approval_id = a.id AND c.call_id = d."callId";
  SELECT * INTO w FROM codedock_write(r, v_tenant, r.session_id, NULL, jsonb_build_array(
    jsonb_build_object('eventId', p_input#>>'{eventIds,decided}', 'type', 'tool.approval_decided', 'turnId', a.turn_id,
      'payload', jsonb_build_object('approvalId', a.id, 'decisions', v_fresh, 'actor', v_actor->>'name'))), '{}', v_now);
  IF NOT EXISTS (SELECT 1 FROM approval_calls c WHERE c.approval_id = a.id AND c.decision IS NULL) THEN
    UPDATE approvals SET status = CASE WHEN v_expire THEN 'expired' ELSE 'decided' END, decided_at = v_now
      WHERE id = a.id RETURNING * INTO a;
    UPDATE tool_calls t SET state = CASE c.decision WHEN 'approve' THEN 'approved' ELSE 'denied' END,
        denial_reason = CASE c.decision WHEN 'deny' THEN c.reason END, updated_at = v_now
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
