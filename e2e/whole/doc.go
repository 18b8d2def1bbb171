// Package whole moves bytes between a client and a server whose both ends count and compare them.
//
// In: connections, however they were made, and an Exchange that says who sends, who ends first, and how fast the other
// reads. Out: what each end got, or how it was cut. What is sent depends on its position alone, so that an end knows a
// missing, doubled or foreign byte when it reads it. Nothing here knows what is between the two.
package whole
