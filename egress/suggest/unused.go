package suggest

func (w *world) unused([]*use, Options) {}
