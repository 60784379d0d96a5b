package bucket

// rules turns a reservations.Limit into a Limit.
var rules func(limit any) Limit //nolint:gochecknoglobals // set once, before main

// SetRules is called once, by package reservations: so its siblings have a conversion that users do not see.
func SetRules(of func(limit any) Limit) struct{} {
	rules = of
	return struct{}{}
}

// Rules returns the Limit of a reservations.Limit, as a bucket has it.
func Rules(limit any) Limit { return rules(limit) }
