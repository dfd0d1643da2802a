-- Expands only: programs of the former release go on working on this schema.

-- What is due without looking at queued runs: a run that merely waits in a long queue is not due.
CREATE FUNCTION codedock_lapsed() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_rings jsonb;
BEGIN
  WITH due AS (
    SELECT id FROM runs WHERE status = 'running' AND lease_until < v_now
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

-- Queued runs that nobody has taken for 5 s after they were rung, by position, and how many runs are queued in all. A lock
-- is not taken: whether their rings still wait is asked of the queue first.
CREATE FUNCTION codedock_untaken(p_after bigint, p_limit integer) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT jsonb_build_object(
    'queued', (SELECT count(*) FROM runs WHERE status = 'queued'),
    'runs', (SELECT coalesce(jsonb_agg(jsonb_build_object('runId', r.id, 'doorbell', r.doorbell, 'position', r.position)
        ORDER BY r.position), '[]')
      FROM (SELECT id, doorbell, position FROM runs
        WHERE status = 'queued' AND position > p_after AND (lease_until IS NULL OR lease_until < codedock_now())
          AND coalesce(rung_at, queued_at) < codedock_now() - interval '5 seconds'
        ORDER BY position LIMIT p_limit) AS r))
$$;

-- Raises the doorbells of runs whose rings are gone; a run that was taken meanwhile is left alone.
CREATE FUNCTION codedock_ring_again(p_runs jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  WITH lost AS (
    SELECT r.id FROM jsonb_to_recordset(p_runs) AS l("runId" uuid, doorbell integer)
      JOIN runs r ON r.id = l."runId" AND r.doorbell = l.doorbell
    WHERE r.status = 'queued' AND (r.lease_until IS NULL OR r.lease_until < codedock_now())
    ORDER BY r.position FOR NO KEY UPDATE OF r SKIP LOCKED
  ), rung AS (
    UPDATE runs SET doorbell = runs.doorbell + 1, rung_at = codedock_now() FROM lost WHERE runs.id = lost.id
    RETURNING runs.*
  )
  SELECT coalesce(jsonb_agg(codedock_ring_view(r::runs, t.in_flight) ORDER BY r.position), '[]')
    FROM rung r JOIN tenants t ON t.id = r.tenant_id
$$;
