//go:build plants

package redo

import (
	"testing"

	"limitdb/internal/plant"
)

func TestPlantedBugsAreCaught(t *testing.T) {
	plant.Check(t, []plant.Bug{
		{"told-before-the-sync", "redo.go", "	if err := l.file.Sync(); err != nil {\n", "	if err := error(nil); err != nil {\n", "TestRedo"},
		{"nobody-may-join", "redo.go", "		runtime.Gosched()\n", "		_ = runtime.Gosched\n", "TestBatchGathers"},
		{"full-file-removed-at-once", "redo.go", "		if err := t.Sync(); err != nil {\n", "		if t == nil {\n			err := t.Sync()\n", "TestRedo"},
		{"directory-not-durable", "redo.go", "	if err := l.fs.SyncDir(filepath.Dir(l.dir)); err != nil {\n", "	if err := error(nil); err != nil {\n", "TestRedo"},
		{"error-forgotten", "redo.go", "	b.err = l.err\n", "	b.err = nil\n", "TestRedoReportsErrors"},
		{"only-the-first-file-redone", "repair.go", "		frames = append(frames, of...)\n", "		if len(frames) == 0 {\n			frames = of\n		}\n", "TestRedo"},
		{"cut-not-redone", "repair.go", "	if err != nil || size <= f.off {", "	if err != nil || size >= 0 {", "TestRedo"},
		{"redone-and-not-synced", "repair.go", "	if err == nil {\n		err = f.Sync()\n	}\n	return errors.Join(err, f.Close())\n", "	return errors.Join(err, f.Close())\n", "TestRedo"},
		{"redone-before-it-is-durable", "repair.go", "		if err := renew(fsys, name); err != nil {\n", "		if err := error(nil); name == dir {\n", "TestCutThatWasNotSynced"},
		{"removal-not-durable", "repair.go", "			err = at.gone(fsys, parent)\n", "", "TestRemovedFile"},
		{"older-file-not-gone-first", "repair.go", "		if err := fsys.SyncDir(dir); err != nil {\n", "		if err := error(nil); err != nil {\n", "TestOlderFilesGoFirst"},
		{"removed-file-comes-back", "repair.go", "	if err := fsys.SyncDir(dir); !errors.Is(", "	if len(names) == 0 {\n		return nil\n	}\n	if err := fsys.SyncDir(dir); !errors.Is(", "TestLastFileIsGone"},
		{"later-sync-believed", "redo.go", "	if err := l.failed(); err != nil {", "	if err := error(nil); err != nil {", "TestSyncAfterOneThatFailed"},
		{"file-not-synced-and-forgotten", "redo.go", "		t.log.fail(err)\n", "", "TestFileThatCannotBeSynced"},
		{"another-file-redone", "repair.go", "	return string(b) == p.head, err\n", "	return len(b) == len(p.head), err\n", "TestRedo"},
		{"cut-not-shown", "repair.go", "			b = b[:min(n, end)]\n", "", "TestRedo"},
		{"damaged-batch-taken-for-the-last", "frame.go", "ok && h.batch > batch {", "ok && h.batch > batch+9 {", "TestDamagedRedoLog"},
		{"data-not-verified", "frame.go", "	if disk.Sum(seed, body) != binary.LittleEndian.Uint32(b[24:]) {\n", "	if false {\n", "TestDamagedRedoLog"},
	})
}
