package transport

func childMain() bool { return false }
