// Package place is where a lake is: objects under names, in a folder or behind an S3 API.
//
// In: its address, and how it is reached. Out: a Place, whose objects are there whole or not at all. Credentials come from files and the environment; no
// error and no log has them. The package knows nothing of what is in a lake, and links no database.
package place
