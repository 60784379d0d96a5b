// Package kubernetes renders deploy/kubernetes with kustomize, and holds what comes out against the API's types.
package kubernetes
