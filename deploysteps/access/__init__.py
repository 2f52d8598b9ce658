"""Who may do what: the policy rules, and the callers that they are asked about."""
