// Package chart holds the tests of the Helm chart in this folder: goldens of what it renders, and a real API server that
// takes it, installs it, and is asked what its service accounts may do. `make chart` packages the chart.
package chart
