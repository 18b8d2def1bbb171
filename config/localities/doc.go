// Package localities judges Istio's localityLbSetting, wherever it is written: in a DestinationRule, or in the mesh's settings.
//
// In: the setting. Out: what is wrong with it, in words for users; Istio refuses the same. It knows no object, and no endpoint: what a setting means is
// serviceentry/locality.
package localities
