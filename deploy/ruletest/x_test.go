package ruletest

import (
	_ "github.com/prometheus/prometheus/rules"
	_ "github.com/prometheus/prometheus/util/teststorage"
)
