// Package rules holds the alert rules of deploy/prometheus against Prometheus's own rule engine. The engine is heavy:
// the tests of deploy/ are a module of their own.
package rules
