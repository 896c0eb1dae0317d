package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// The parts of SPDX 2.3 that the list has, by the names of its JSON.
type (
	spdx struct {
		SPDXVersion       string         `json:"spdxVersion"`
		DataLicense       string         `json:"dataLicense"`
		SPDXID            string         `json:"SPDXID"`
		Name              string         `json:"name"`
		DocumentNamespace string         `json:"documentNamespace"`
		CreationInfo      creation       `json:"creationInfo"`
		Packages          []spdxPackage  `json:"packages"`
		Files             []spdxFile     `json:"files"`
		Relationships     []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string        `json:"SPDXID"`
		Name             string        `json:"name"`
		VersionInfo      string        `json:"versionInfo"`
		DownloadLocation string        `json:"downloadLocation"`
		FilesAnalyzed    bool          `json:"filesAnalyzed"`
		LicenseConcluded string        `json:"licenseConcluded"`
		LicenseDeclared  string        `json:"licenseDeclared"`
		CopyrightText    string        `json:"copyrightText"`
		ExternalRefs     []externalRef `json:"externalRefs,omitempty"`
	}
	externalRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxFile struct {
		SPDXID           string     `json:"SPDXID"`
		FileName         string     `json:"fileName"`
		Checksums        []checksum `json:"checksums"`
		LicenseConcluded string     `json:"licenseConcluded"`
		CopyrightText    string     `json:"copyrightText"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

// document returns the list: limitdb, which its binaries are built from, and the parts that are linked into them.
func document(version string, at time.Time, binaries []binary, parts []part) spdx {
	const unsaid, root = "NOASSERTION", "SPDXRef-limitdb"
	h := sha256.New() // the same list has the same name space, and another list another
	d := spdx{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "limitdb-" + version,
		CreationInfo:  creation{at.Format(time.RFC3339), []string{"Tool: limitdb-scripts-bill"}},
		Packages:      []spdxPackage{{root, "limitdb", version, unsaid, false, "Apache-2.0", "Apache-2.0", unsaid, nil}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	for i, b := range binaries {
		fmt.Fprintln(h, b.name, b.sum)
		id := fmt.Sprintf("SPDXRef-File-%d", i+1)
		d.Files = append(d.Files, spdxFile{id, "./" + b.name, []checksum{{"SHA256", b.sum}}, unsaid, unsaid})
		d.Relationships = append(d.Relationships, relationship{id, "GENERATED_FROM", root})
	}
	for i, p := range parts {
		fmt.Fprintln(h, p.path, p.version)
		id := fmt.Sprintf("SPDXRef-Package-%d", i+1)
		purl := "pkg:golang/" + p.path + "@" + p.version
		if p.path == charts {
			purl = "pkg:npm/" + p.path + "@" + p.version
		}
		d.Packages = append(d.Packages, spdxPackage{
			id, p.path, p.version, unsaid, false, p.licence, p.licence, unsaid,
			[]externalRef{{"PACKAGE-MANAGER", "purl", purl}},
		})
		d.Relationships = append(d.Relationships, relationship{root, "DEPENDS_ON", id})
	}
	d.DocumentNamespace = "https://spdx.org/spdxdocs/" + d.Name + "-" + hex.EncodeToString(h.Sum(nil)[:16])
	return d
}
