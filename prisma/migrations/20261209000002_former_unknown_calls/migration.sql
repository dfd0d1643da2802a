-- Calls from before there was a list of those of unknown outcome. By itself, so that no call waits while they are looked
-- for; one that is being resolved at this moment is waited for, and looked at again.
INSERT INTO unknown_calls (tenant_id, call_id, created_at)
  SELECT tenant_id, id, created_at FROM tool_calls WHERE state = 'unknown' FOR SHARE
  ON CONFLICT DO NOTHING;
