package translate

// KeepWhole has it keep all resources of all views as they are, as views do that pack none.
func (t *Translator) KeepWhole() { t.whole = true }

// Packs says whether something of a view is packed.
func (v *View) Packs() bool { return v.packs != (packed{}) }

// Remembers says how much is remembered of a host.
func (t *Translator) Remembers(host string) int { return len(t.memo[host]) }
