// Package inforce is the configuration of a cluster, for the console's pages.
//
// In: a client's configuration, and the mesh's settings. Out: what is in force, as a console.Config. The cluster is watched as the controller
// watches it (config/source/kube), but only while somebody looks: the first question begins it, and when nobody has asked for a while it is
// forgotten. It reads what decisions depend on, and neither Secrets nor anything that it could not name. What cannot be read makes no answer;
// what is old is given with its age (docs/adr/0065-the-console-in-a-cluster.md).
package inforce
