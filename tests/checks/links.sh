#!/bin/sh
# Links, paths and counts in Markdown. A relative link leads to a file, with its heading. A path in backticks is the end of a path
# of the sources, or a file that moec or a test writes. Counts equal the sources. README has at most 130 lines, a guide 80.
. "$(dirname "$0")/../begin.sh"
status=0

# problems FOLDER: prints the dead links and paths of all Markdown files of the folder.
problems() {
    (
        cd "$1"
        find . -name .git -prune -o -path ./build -prune -o -path ./quickstart -prune -o \( -type f -print \) -o \( -type d -exec printf '%s/\n' {} \; \) |
            sed 's/^\.\///' >"$work/paths"
        # shellcheck disable=SC2046 # names without spaces
        awk -v written=" program.c training.h kernels.cu report.md " -v anchors="$work/anchors" '
            FILENAME == ARGV[1] { # every suffix of a path
                exists[$0] = 1
                for (path = $0; path != ""; sub(/^[^\/]*\/?/, "", path)) known[path] = 1
                next
            }
            function report(what) { print FILENAME ":" FNR ": " what }
            FNR == 1 { code = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = "" }
            /^```/ { code = !code }
            code || /^    / { next }
            {
                text = $0
                gsub(/`[^`]*`/, "", text)
                while (match(text, /\]\([^)]*\)/)) {
                    target = substr(text, RSTART + 2, RLENGTH - 3)
                    text = substr(text, RSTART + RLENGTH)
                    if (target ~ /^[a-z]+:/) continue
                    anchor = target ~ /#/ ? target : ""
                    sub(/#.*/, "", target)
                    sub(/^.*#/, "", anchor)
                    path = target == "" ? FILENAME : folder target
                    while (sub(/[^\/]+\/\.\.\//, "", path)) { }
                    if (!(path in exists) && !(path "/" in exists)) report("no file " target)
                    else if (anchor != "") print path, anchor, FILENAME ":" FNR > anchors
                }
                text = $0
                while (match(text, /`[^` ]+`/)) {
                    path = substr(text, RSTART + 1, RLENGTH - 2)
                    text = substr(text, RSTART + RLENGTH)
                    if (path !~ /^[A-Za-z0-9_.\/]*[a-z0-9_]\/$|^[A-Za-z0-9_.\/]+\.(awk|c|cu|cuh|h|l|md|moe|py|sh|y)$/) continue
                    if (path ~ /^[\/.]|^build\/|[A-Z][A-Z]+\/|^NAME/ || index(written, " " path " ")) continue
                    if (!(path in known)) report("no path " path)
                }
            }' "$work/paths" $(sed -n '/\.md$/p' "$work/paths")
        # Headings become anchors as on GitHub: lower case, hyphens for spaces, no punctuation.
        [ ! -e "$work/anchors" ] || while read -r file anchor where; do
            sed -n 's/^##* //p' "$file" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' | grep -qxF -- "$anchor" ||
                echo "$where: no heading $anchor in $file"
        done <"$work/anchors"
    )
}

# The rules find these faults and accept the rest.
mkdir -p "$work/sample/folder"
cat >"$work/sample/folder/page.md" <<'END'
# First page: a title
[page](page.md#first-page-a-title) [folder](../folder) [web](https://example.org/none) `folder/page.md` `page.md` `build/none.c`
[none](none.md) [heading](page.md#none) `folder/none.sh` `none/`
    [code](none.md)
END
problems "$work/sample" >"$work/found"
cat >"$work/expected" <<'END'
folder/page.md:3: no file none.md
folder/page.md:3: no path folder/none.sh
folder/page.md:3: no path none/
folder/page.md:3: no heading none in folder/page.md
END
diff "$work/expected" "$work/found" || wrong "the rules do not match the sample"
rm -f "$work/anchors"

problems . >"$work/found"
[ ! -s "$work/found" ] || { cat "$work/found"; status=1; }

# count FILE TEXT NUMBER: the file has TEXT, in which N stands for NUMBER.
count() {
    grep -qF -- "$(echo "$2" | sed "s/N/$3/")" "$1" || { echo "$1: not '$2' with N = $3"; status=1; }
}
# constant FILE NAME: the value of an enumeration constant.
constant() { sed -n "s/.*\<$2 = \([0-9]*\).*/\1/p" "$1"; }
count examples/guides/09-custom-layers.md '[N published ideas]' "$(find examples/ideas -name '*.moe' | wc -l)"
count tests/README.md ' N models; every limit' "$(constant tests/unit/test_models.c DEFAULT_MODELS)"
count tests/README.md 'MOEC_MODELS=N build/tests/unit/test_models forms' "$(constant tests/unit/test_models.c MODELS_FOR_ALL_FORMS)"
wc -l README.md examples/guides/[0-9]*.md | awk '$2 != "total" && $1 > ($2 == "README.md" ? 130 : 80) { print $2 ": too long"; wrong = 1 } END { exit wrong }' || status=1
exit $status
