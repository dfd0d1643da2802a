-- Expands only: programs of the former release go on working on this schema.

-- CreateTable
CREATE TABLE "unknown_calls" (
    "tenant_id" UUID NOT NULL,
    "call_id" UUID NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "unknown_calls_pkey" PRIMARY KEY ("tenant_id","call_id")
);

-- CreateIndex
CREATE INDEX "unknown_calls_tenant_id_created_at_call_id_idx" ON "unknown_calls"("tenant_id", "created_at", "call_id");

-- AddForeignKey
ALTER TABLE "unknown_calls" ADD CONSTRAINT "unknown_calls_tenant_id_call_id_fkey" FOREIGN KEY ("tenant_id", "call_id") REFERENCES "tool_calls"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;



-- ─── What Prisma cannot express ──────────────────────────────────────────────────────────────────────────────────────

-- Keeps the list of calls whose outcome nobody knows. An index on the state of calls would do the same, and make every
-- change of every call write to all indexes of the table: no update that touches an indexed column stays in its page.
CREATE FUNCTION codedock_list_unknown() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state = 'unknown' THEN
    INSERT INTO unknown_calls (tenant_id, call_id, created_at) VALUES (NEW.tenant_id, NEW.id, NEW.created_at)
      ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM unknown_calls WHERE tenant_id = NEW.tenant_id AND call_id = NEW.id;
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER "tool_calls_born_unknown" AFTER INSERT ON "tool_calls" FOR EACH ROW
  WHEN (NEW.state = 'unknown') EXECUTE FUNCTION codedock_list_unknown();
CREATE TRIGGER "tool_calls_list_unknown" AFTER UPDATE ON "tool_calls" FOR EACH ROW
  WHEN (NEW.state <> OLD.state AND 'unknown' IN (NEW.state, OLD.state)) EXECUTE FUNCTION codedock_list_unknown();
