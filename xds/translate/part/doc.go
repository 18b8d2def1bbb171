// Package part is what a role makes of one host: its resources, and what of the base depends on it.
package part
