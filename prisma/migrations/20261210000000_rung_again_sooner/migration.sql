-- As before, but a run whose lease has run out is rung again after 2 s instead of 5: whoever was rung may have died, too,
-- before it took the run.
CREATE OR REPLACE FUNCTION codedock_lapsed() RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := codedock_now();
  v_rings jsonb;
BEGIN
  WITH due AS (
    SELECT id FROM runs WHERE status = 'running' AND lease_until < v_now
      AND (rung_at IS NULL OR rung_at < lease_until OR rung_at < v_now - interval '2 seconds')
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
