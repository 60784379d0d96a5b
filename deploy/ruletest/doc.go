// Package ruletest holds the alert rules of deploy/prometheus against Prometheus's own rule engine. It is a module of
// its own: the engine is heavy.
package ruletest
