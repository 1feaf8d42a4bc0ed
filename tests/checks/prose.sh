#!/bin/sh
# The prose of documentation, option texts, comments and messages.
#
# Clean files contain no rejected word and no free relative clause. A sentence has at most 35 words, and a Markdown file at most 20
# words per sentence on average. Every option of stdlib/ has a text. An option text is a noun phrase in lower case with all values
# of an enumeration. prose.allow lists exceptions with their reasons.
#
# All other files: prose.counts holds the number of sentences with a marker per folder, which can only fall. UPDATE=1 stores
# lower counts.
. "$(dirname "$0")/../begin.sh"
here=tests/checks
judge=$PWD/$here/prose.awk
clean="stdlib/*.md stdlib/*.moe stdlib/layouts/*.moe models/*.md models/*.moe
    examples/*.md examples/*.moe examples/*.c examples/*.sh examples/*/*.md examples/*/*.moe examples/*/*.c
    runtime/FILES.md runtime/SERVER.md runtime/CHANGELOG.md compiler/ERRORS.md runtime/python/API.md runtime/python/api.py tests/errors.py
    $here/api.sh $here/errors.sh $here/fields.sh $here/options.sh $here/version.sh $here/prose.sh $here/prose.awk $here/language.sh $here/models.sh $here/tutorial.sh"
status=0

# Each rule finds its sentence in this sample, and accepts the last two lines.
mkdir "$work/stdlib"
cat >"$work/stdlib/sample.moe" <<'END'
# The place of a token.
layer sample(x) -> y {
  option a: int = 1
  option b: int = 1  "the size of it"
  option c: enum in [left, right] = left  "side of the tensor, left"
  option d: int = 1  "size in bytes; 0 = automatic"
}
END
cat >"$work/sample.md" <<'END'
The file states what it contains. It needs 4 bytes a token. One two three four five six seven eight nine ten eleven twelve
thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five
twenty-six twenty-seven twenty-eight twenty-nine thirty thirty-one thirty-two thirty-three thirty-four thirty-five thirty-six.

`place` is a code span, and "a place" is a quotation.
END
(cd "$work" && awk -v strict=1 -f "$judge" stdlib/sample.moe sample.md) | sed 's/:[^:]*$//' >"$work/found"
cat >"$work/expected" <<'END'
stdlib/sample.moe:1: rejected word 'place'
stdlib/sample.moe:3: option without text
stdlib/sample.moe:4: option text is not a noun phrase in lower case: b
stdlib/sample.moe:5: option text lacks the value right: c
sample.md:1: free relative clause
sample.md:1: rejected word 'bytes a token'
sample.md:1: sentence of 36 words
total 8 2 1
END
diff "$work/expected" "$work/found" || wrong "the rules do not match the sample"

# shellcheck disable=SC2086 # patterns
awk -v strict=1 -v allow=$here/prose.allow -f "$judge" $clean >"$work/found"
grep -v '^total ' "$work/found" && status=1
awk '/^total / {
    markers = 100 * $3 / $2; clauses = 100 * $4 / $2
    printf "%d sentences: rejected words in %.2f %%, free relative clauses in %.2f %%\n", $2, markers, clauses
    exit $2 < 1000 || markers > 1 || clauses > 3
}' "$work/found" || status=1

# shellcheck disable=SC2086 # patterns
ls $clean >"$work/clean"
while read -r limit folder; do
    find "$folder" -type f \( -name '*.md' -o -name '*.[chly]' -o -name '*.cuh' -o -name '*.cu' -o -name '*.sh' -o -name '*.py' \) \
        ! -path '*/build/*' ! -path '*/gpu-results/*' | grep -vxFf "$work/clean" | sort >"$work/files"
    # shellcheck disable=SC2046 # names without spaces
    count=$(awk -f "$judge" $(cat "$work/files"))
    [ "$count" -le "$limit" ] || { echo "$folder: $count sentences with markers, at most $limit in prose.counts"; status=1; limit=$count; }
    [ "$count" = "$limit" ] || echo "$folder: $count sentences with markers, fewer than $limit: UPDATE=1 $here/prose.sh"
    [ "$count" -le "$limit" ] && limit=$count
    echo "$limit $folder" >>"$work/counts"
done <$here/prose.counts
[ -z "${UPDATE:-}" ] || [ $status = 1 ] || cp "$work/counts" $here/prose.counts
exit $status
