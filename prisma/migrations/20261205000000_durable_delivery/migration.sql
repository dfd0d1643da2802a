-- Expands only: programs of the former release go on working on this schema.

-- CreateTable
CREATE TABLE "plugin_cursors" (
    "tenant_id" UUID NOT NULL,
    "plugin" TEXT NOT NULL,
    "txid" xid8 NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()),
    "events" TEXT[],
    "asked_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "plugin_cursors_pkey" PRIMARY KEY ("tenant_id","plugin")
);

-- CreateTable
CREATE TABLE "plugin_feeds" (
    "plugin" TEXT NOT NULL,
    "tenant_id" UUID NOT NULL,
    "session_id" UUID NOT NULL,
    "delivered_seq" BIGINT NOT NULL,
    "known_seq" BIGINT NOT NULL,
    "waiting_since" TIMESTAMPTZ(3),
    "next_at" TIMESTAMPTZ(3),
    "lease" UUID,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "error" TEXT,

    CONSTRAINT "plugin_feeds_pkey" PRIMARY KEY ("plugin","session_id")
);

-- CreateIndex
CREATE INDEX "plugin_feeds_session_id_idx" ON "plugin_feeds"("session_id");

-- AddForeignKey
ALTER TABLE "plugin_cursors" ADD CONSTRAINT "plugin_cursors_tenant_id_fkey" FOREIGN KEY ("tenant_id") REFERENCES "tenants"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "plugin_feeds" ADD CONSTRAINT "plugin_feeds_tenant_id_session_id_fkey" FOREIGN KEY ("tenant_id", "session_id") REFERENCES "sessions"("tenant_id", "id") ON DELETE CASCADE ON UPDATE CASCADE;

-- What the schema file cannot say.

ALTER TABLE "plugin_feeds" ADD CONSTRAINT "plugin_feeds_waiting" CHECK (("waiting_since" IS NULL) = ("next_at" IS NULL));
CREATE INDEX "plugin_feeds_due" ON "plugin_feeds" ("plugin", "next_at") WHERE "next_at" IS NOT NULL;
CREATE INDEX "events_committed" ON "events" ("txid") WHERE "type" <> 'assistant.delta';

-- ─── Durable delivery of events to plugins ───────────────────────────────────────────────────────────────────────────

-- The events of one session that a plugin has not been given yet, in order, leased to the caller; '{}' when none is due.
--
-- Two steps. A cursor by transaction finds the sessions with news: only transactions older than every running one are
-- read, so that none commits behind the cursor. What is delivered of a session is told by its own numbers, because those
-- are given under the session's lock and so become visible in their order, which transaction ids do not: a transaction
-- may have got its id long before it got its number.
CREATE FUNCTION codedock_plugin_take(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_installation CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  v_plugin text := p_input->>'plugin';
  v_types text[] := ARRAY(SELECT jsonb_array_elements_text(p_input->'events') ORDER BY 1);
  v_now timestamptz := codedock_now();
  v_from xid8;
  v_to xid8;
  v_known text[];
  v_asked_at timestamptz;
  v_batch jsonb;
  f plugin_feeds;
BEGIN
  SELECT txid, events, asked_at INTO v_from, v_known, v_asked_at FROM plugin_cursors
    WHERE tenant_id = v_installation AND plugin = v_plugin;
  IF NOT FOUND THEN
    INSERT INTO plugin_cursors (tenant_id, plugin, events) VALUES (v_installation, v_plugin, v_types)
      ON CONFLICT DO NOTHING;
    RETURN '{}';
  END IF;
  v_to := pg_snapshot_xmin(pg_current_snapshot());
  -- After a long absence the news are found bit by bit.
  v_to := least(v_to, ((v_from::text::numeric + 100000)::text)::xid8);
  IF v_known <> v_types OR v_asked_at < v_now - interval '1 minute' OR v_to::text::numeric - v_from::text::numeric >= 10000
    OR EXISTS (SELECT 1 FROM events e WHERE e.txid >= v_from AND e.txid < v_to
      AND e.type <> 'assistant.delta' AND e.type = ANY (v_types)) THEN
    -- One looks; who comes meanwhile takes what was found before.
    SELECT txid INTO v_from FROM plugin_cursors
      WHERE tenant_id = v_installation AND plugin = v_plugin FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
      IF v_from < v_to THEN
        INSERT INTO plugin_feeds AS known (plugin, tenant_id, session_id, delivered_seq, known_seq, waiting_since, next_at)
          SELECT v_plugin, n.tenant_id, n.session_id,
              coalesce((SELECT min(e.seq) FROM events e WHERE e.session_id = n.session_id AND e.seq < n.first_seq
                AND e.txid >= v_to AND e.type <> 'assistant.delta' AND e.type = ANY (v_types)), n.first_seq) - 1,
              n.last_seq, n.since, v_now
            FROM (SELECT e.tenant_id, e.session_id, min(e.seq) AS first_seq, max(e.seq) AS last_seq, min(e.occurred_at) AS since
              FROM events e WHERE e.txid >= v_from AND e.txid < v_to
                AND e.type <> 'assistant.delta' AND e.type = ANY (v_types)
              GROUP BY e.tenant_id, e.session_id) n
            ORDER BY n.session_id
          ON CONFLICT (plugin, session_id) DO UPDATE SET known_seq = excluded.known_seq,
              waiting_since = coalesce(known.waiting_since, excluded.waiting_since),
              next_at = coalesce(known.next_at, excluded.next_at)
            WHERE excluded.known_seq > known.known_seq;
      END IF;
      UPDATE plugin_cursors SET txid = greatest(txid, v_to), events = v_types, asked_at = v_now
        WHERE tenant_id = v_installation AND plugin = v_plugin;
    END IF;
  END IF;

  UPDATE plugin_feeds SET lease = gen_random_uuid(), attempts = attempts + 1,
      next_at = v_now + (p_input->>'holdMs')::integer * interval '1 millisecond'
    WHERE plugin = v_plugin AND session_id = (SELECT d.session_id FROM plugin_feeds d
      WHERE d.plugin = v_plugin AND d.next_at <= v_now ORDER BY d.next_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING * INTO f;
  IF f.session_id IS NULL THEN
    RETURN '{}';
  END IF;
  WITH next AS (
    SELECT x.e, row_number() OVER (ORDER BY (x.e).seq) AS n,
        sum(octet_length((x.e).payload::text)) OVER (ORDER BY (x.e).seq) AS bytes
      FROM (SELECT e FROM events e WHERE e.session_id = f.session_id AND e.seq > f.delivered_seq
        AND e.type <> 'assistant.delta' AND e.type = ANY (v_types)
        ORDER BY e.seq LIMIT (p_input->>'limit')::integer + 1) x
  ), given AS (
    SELECT * FROM next WHERE n = 1 OR (n <= (p_input->>'limit')::integer AND bytes <= (p_input->>'maxBytes')::integer)
  )
  SELECT jsonb_build_object(
      'tenantId', f.tenant_id, 'sessionId', f.session_id, 'lease', f.lease, 'attempt', f.attempts,
      -- Where everything is given, numbers of events that do not interest count as given too.
      'throughSeq', CASE WHEN (SELECT count(*) FROM next) = count(g.n) THEN greatest(f.known_seq, max((g.e).seq))
        ELSE max((g.e).seq) END,
      'events', coalesce(jsonb_agg(codedock_event_view(g.e) || jsonb_build_object('principal', coalesce(r.principal,
          jsonb_strip_nulls(jsonb_build_object('tenant', s.tenant_id, 'key', '', 'actor', s.end_user,
            'agent', '', 'metadata', '{}'::jsonb))))
        ORDER BY g.n) FILTER (WHERE g.n IS NOT NULL), '[]'))
    INTO v_batch
    FROM sessions s LEFT JOIN given g ON true LEFT JOIN runs r ON r.id = (g.e).run_id
    WHERE s.id = f.session_id;
  RETURN v_batch;
END
$$;

-- What became of a batch: everything up to a number is delivered; with an error the rest is due again later. Nothing
-- happens when the lease is another's meanwhile.
CREATE FUNCTION codedock_plugin_settle(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_through bigint := (p_input->>'deliveredSeq')::bigint;
  v_error text := p_input->>'error';
  v_types text[];
  f plugin_feeds;
BEGIN
  SELECT events INTO v_types FROM plugin_cursors
    WHERE tenant_id = '00000000-0000-0000-0000-000000000000' AND plugin = p_input->>'plugin';
  SELECT * INTO f FROM plugin_feeds WHERE plugin = p_input->>'plugin' AND session_id = (p_input->>'sessionId')::uuid
    AND lease = (p_input->>'lease')::uuid FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN '{"held": false}';
  END IF;
  f.known_seq := greatest(f.known_seq, v_through);
  IF v_through > f.delivered_seq THEN
    f.delivered_seq := v_through;
    f.attempts := CASE WHEN v_error IS NULL THEN 0 ELSE 1 END;
  END IF;
  UPDATE plugin_feeds SET known_seq = f.known_seq, delivered_seq = f.delivered_seq, attempts = f.attempts,
      lease = NULL, error = CASE WHEN f.delivered_seq < f.known_seq THEN v_error END,
      waiting_since = CASE WHEN f.delivered_seq < f.known_seq THEN coalesce((SELECT e.occurred_at FROM events e
        WHERE e.session_id = f.session_id AND e.seq > f.delivered_seq AND e.type <> 'assistant.delta'
          AND e.type = ANY (v_types) ORDER BY e.seq LIMIT 1), f.waiting_since) END,
      -- Half a second, doubled with every failure in a row up to a minute, so that one bad moment costs little and
      -- a plugin that fails for hours is not asked all the time.
      next_at = CASE WHEN f.delivered_seq < f.known_seq THEN v_now + CASE WHEN v_error IS NULL THEN interval '0'
        ELSE least(0.5 * 2 ^ least(f.attempts - 1, 10), 60) * (0.9 + random() * 0.2) * interval '1 second' END END
    WHERE plugin = f.plugin AND session_id = f.session_id;
  RETURN '{"held": true}';
END
$$;

-- Per plugin with durable delivery: in how many sessions events wait, since when the oldest does, and what was wrong last.
-- Events that nobody has looked for yet count too, as no plugin-host may be there to look.
CREATE FUNCTION codedock_plugin_deliveries() RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('plugin', c.plugin, 'waitingSessions', w.sessions,
      'lagMs', CASE WHEN least(w.since, u.since) IS NOT NULL
        THEN greatest(0, round(extract(epoch FROM codedock_now() - least(w.since, u.since)) * 1000)) END,
      'error', w.error, 'attempts', w.attempts)) ORDER BY c.plugin), '[]')
  FROM plugin_cursors c
  CROSS JOIN LATERAL (SELECT count(*) AS sessions, min(f.waiting_since) AS since, max(f.attempts) AS attempts,
      (array_agg(f.error ORDER BY f.waiting_since) FILTER (WHERE f.error IS NOT NULL))[1] AS error
    FROM plugin_feeds f WHERE f.plugin = c.plugin AND f.next_at IS NOT NULL) w
  CROSS JOIN LATERAL (SELECT min(o.occurred_at) AS since FROM (SELECT e.occurred_at FROM events e
    WHERE e.txid >= c.txid AND e.type <> 'assistant.delta' AND e.type = ANY (c.events)
    ORDER BY e.txid LIMIT 100) o) u
  WHERE c.tenant_id = '00000000-0000-0000-0000-000000000000'
$$;

-- Forgets plugins that no plugin-host has asked for since a while, and tells so in the audit. Answers their names.
CREATE FUNCTION codedock_plugin_forget(p_input jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_names text[];
BEGIN
  WITH gone AS (
    DELETE FROM plugin_cursors
      WHERE asked_at < codedock_now() - (p_input->>'unaskedMs')::bigint * interval '1 millisecond' RETURNING plugin
  ), feeds AS (
    DELETE FROM plugin_feeds f USING gone WHERE f.plugin = gone.plugin RETURNING f.plugin, f.next_at
  ), told AS (
    INSERT INTO admin_audit (tenant_id, actor, action, target, detail)
      SELECT '00000000-0000-0000-0000-000000000000'::uuid, 'host', 'plugin.delivery_forgotten', gone.plugin,
          jsonb_build_object('waitingSessions', (SELECT count(*) FROM feeds
            WHERE feeds.plugin = gone.plugin AND feeds.next_at IS NOT NULL)) FROM gone
  )
  SELECT array_agg(plugin ORDER BY plugin) INTO v_names FROM gone;
  RETURN to_jsonb(coalesce(v_names, '{}'));
END
$$;
