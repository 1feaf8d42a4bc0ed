"""build: small tokenizers of the kinds of published models, made with the tokenizers library, and difficult strings.

`made(folder)` returns (name, tokenizer) pairs; `strings(count, seed)` returns the strings.
"""
import glob
import json
import os
import random
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]

CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
ODD = (r"(?<=a)b|(?<!x)y+|\p{N}{1,2}+|\p{^Mark}{2}x|[\p{Ll}\p{Nd}]+$|^\p{Punctuation}|\p{Han}+|[\x41-\x5A\u00e0-\u00ff]{,3}\d"
       r"|(?i:straße|k+)|[\h]{2,}|\v|[^\S\n]+|\w+|.")

SCRIPTS = [(0x61, 0x7A), (0x61, 0x7A), (0xE0, 0xFF), (0x3B1, 0x3C9), (0x430, 0x44F), (0x5D0, 0x5EA), (0x627, 0x64A),
           (0x905, 0x939), (0xE01, 0xE2E), (0x3041, 0x3096), (0x4E00, 0x4EFF), (0xAC00, 0xACFF), (0x1F600, 0x1F64F)]


def corpus():
    """Text of this repository and artificial words of many scripts."""
    texts = []
    for pattern in ("*.md", "*/*.md", "stdlib/*.moe", "runtime/tools/command/*.c"):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            with open(path, encoding="utf-8") as file:
                texts += file.read().splitlines(keepends=True)
    dice = random.Random(1)
    for first, last in SCRIPTS:
        words = ["".join(chr(dice.randint(first, last)) for _ in range(dice.randint(1, 7))) for _ in range(150)]
        texts += [" ".join(dice.choices(words, k=12)) + "。, 1234 don't\n" for _ in range(120)]
    return texts


ANY = list(range(0x20, 0x7F)) * 40 + list(range(0, 0x20)) * 4 + list(range(0x80, 0x250)) + list(range(0x300, 0x370)) * 3
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "<mask>", "<extra>", "Word", "ﬁnal", " x ", "\u2581",
           "\u2581\u2581", "\u200d", "\ufeff", "\u0130", "\u00df", "\ufdfa", "\u1e9e", "\ua9bd", "\u0345", "\u0f43", "'S", "'ſ", "\u3000",
           "\u00a0", "\u2028", "\x85", "\x00", "\ufffd", "e\u0301\u0323", "\u1100\u1161\u11a8", "각", "👩‍👩‍👧‍👦", "🏳️‍🌈", "don't", "I'LL", "\r\n",
           "\n\n\n", "   ", "\t", "1234567", "½", "٣٤", "Ⅷ", "<0x41>", "<0x0A>", "##a", "Ġ", "ĠĊ", "</w>", "漢字", "かな", "ไทย", "ß", "ﬀ"]


def one(dice):
    kind = dice.random()
    pieces = []
    for _ in range(dice.choice((0, 1, 2, 3, 5, 8, 13, 30))):
        roll = dice.random()
        if roll < 0.25:
            pieces.append(dice.choice(SPECIAL))
        elif roll < 0.5:
            first, last = dice.choice(SCRIPTS)
            pieces.append("".join(chr(dice.randint(first, last)) for _ in range(dice.randint(1, 6))))
        elif roll < 0.6:
            pieces.append(dice.choice(" \n\t\r\u00a0\u3000\u2581") * dice.randint(1, 9))
        elif roll < 0.9 or kind < 0.3:
            pieces.append("".join(chr(dice.choice(ANY)) for _ in range(dice.randint(1, 10))))
        else:
            pieces.append("".join(chr(any_character(dice)) for _ in range(dice.randint(1, 4))))
        if dice.random() < 0.4:
            pieces.append(" ")
    return "".join(pieces)


def any_character(dice):
    while True:
        c = dice.randint(0, 0x323FF) if dice.random() < 0.9 else dice.randint(0, 0x10FFFF)
        if not 0xD800 <= c < 0xE000:
            return c


def strings(count, seed):
    """Byte strings: texts; every tenth has bytes that are not UTF-8."""
    dice = random.Random(seed)
    moved = "\u00b4\u0356m6/".encode()  # in NFKC two marks after a space are reordered
    result = [b"", b" ", moved, "".join(SPECIAL).encode(), bytes(range(256))]
    for i in range(count - len(result)):
        text = one(dice).encode()
        if i % 10 == 0 and text:
            broken = bytearray(text)
            for _ in range(dice.randint(1, 4)):
                broken[dice.randrange(len(broken))] = dice.randrange(256)
            text = bytes(broken)
        result.append(text)
    return result


def long_strings():
    """100 kB without a space."""
    dice = random.Random(5)
    return [b"a" * 100000, "".join(chr(dice.randint(0x61, 0x7A)) for _ in range(100000)).encode(), b" " * 100000,
            "".join(chr(dice.randint(0x4E00, 0x4EFF)) for _ in range(33000)).encode(), b"\n" * 50000 + b"x",
            ("e" + "\u0301\u0323" * 300 + "x" * 1000).encode() * 50]


def trained_bpe(tokenizer, size, special=(), **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, **options)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def byte_level(expressions, size, special=(), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    splits = [pre_tokenizers.Split(Regex(e), "isolated") for e in expressions]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits + [last]) if splits else last
    tokenizer.decoder = decoders.ByteLevel()
    return trained_bpe(tokenizer, size, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def cl100k(size):
    return byte_level([CL100K], size)


def bloom(size):
    return byte_level([BLOOM], size)


def odd(size):
    return byte_level([ODD], size)


def gpt2(size):
    tokenizer = byte_level([], size, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def llama3(size):
    tokenizer = byte_level([LLAMA3], size, ["<|endoftext|>", "<s>"], ignore_merges=True)
    template = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen(size):
    tokenizer = byte_level([QWEN], size)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("<extra>", normalized=False), AddedToken("Word", single_word=True, normalized=False)])
    return tokenizer


def o200k(size):
    return byte_level([O200K], size, ["<|endoftext|>"])


def deepseek(size):
    tokenizer = byte_level(DEEPSEEK, size, ["<|endoftext|>", "<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True)])
    return tokenizer


def roberta(size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trained_bpe(tokenizer, size, ["<s>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_bytes(model_json, first):
    """The bytes as tokens from number `first` on, as in SentencePiece."""
    vocabulary = model_json["vocab"]
    for token in [t for t, i in vocabulary.items() if i >= first]:
        vocabulary[token] += 256
    vocabulary.update({f"<0x{b:02X}>": first + b for b in range(256)})
    return model_json


def sentencepiece_bpe(tokenizer, size):
    trained_bpe(tokenizer, size, ["<unk>", "<s>", "</s>"], max_token_length=16, limit_alphabet=300)
    whole = json.loads(tokenizer.to_str())
    with_bytes(whole["model"], 3)
    return whole


def llama2(size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    whole = sentencepiece_bpe(tokenizer, size)
    whole["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=True)])
    return tokenizer


def gemma(size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer = Tokenizer.from_str(json.dumps(sentencepiece_bpe(tokenizer, size)))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_tokens([AddedToken(s, normalized=False) for s in ("\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁")])
    return tokenizer


RULES = "".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in (
    ("ﬁ", "fi"), ("ß", "ss"), ("\n", " "), ("\t", " "), ("\u00a0", " "), ("\u3000", " "), ("Ⅷ", "VIII"), ("\u200d", ""),
    ("e\u0301", "é"), ("e\u0301\u0323", "ẹ́"), ("\ufeff", ""), ("½", "1/2"), ("ﷺ", "صلى الله")))


def charsmap(small):
    """The table of nmt_nfkc, or of a few rules, from a model that SentencePiece has trained."""
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        prefix, rules = os.path.join(folder, "model"), os.path.join(folder, "rules.tsv")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(RULES)
        options = {"normalization_rule_tsv": rules} if small else {}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_prefix=prefix, vocab_size=2000,
                                                 minloglevel=2, hard_vocab_limit=False, **options)
        with open(prefix + ".model", "rb") as file:
            return field(field(file.read(), 3), 2)


def field(message, wanted):
    """A field of bytes in a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 2:
            length = varint()
            if key >> 3 == wanted:
                return message[at:at + length]
            at += length
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8
    raise ValueError(f"no field {wanted}")


def trained_unigram(tokenizer, size):
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def t5(size):
    tokenizer = Tokenizer(models.Unigram())
    first = normalizers.Precompiled(charsmap(small=size < 2000))
    tokenizer.normalizer = normalizers.Sequence([first, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trained_unigram(tokenizer, size)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def unigram_bytes(size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(True, False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(True)])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    whole = json.loads(trained_unigram(tokenizer, size).to_str())
    model = whole["model"]
    model["vocab"] = model["vocab"][:3] + [[f"<0x{b:02X}>", 0.0] for b in range(256)] + model["vocab"][3:]
    model["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(whole))


def trained_wordpiece(tokenizer, size):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bert(size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trained_wordpiece(tokenizer, size)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                             special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def cased(size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Replace(Regex(r"\d+"), "0")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous")])
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    trained_wordpiece(tokenizer, size)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def clip(size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(False)])
    tokenizer.decoder = decoders.BPEDecoder()
    trained_bpe(tokenizer, size, ["<unk>"], end_of_word_suffix="</w>")
    tokenizer.add_tokens(["Word", AddedToken("ﬁnal", single_word=True)])
    return tokenizer


# All kinds; for the others a small tokenizer is stored with the tests.
EXTRA = [cl100k, bloom, odd]
KINDS = [gpt2, llama3, qwen, o200k, deepseek, roberta, llama2, gemma, t5, unigram_bytes, bert, cased, clip]


def made(folder, size, names=()):
    os.makedirs(folder, exist_ok=True)
    for kind in [kind for kind in KINDS + EXTRA if not names or kind.__name__ in names]:
        path = os.path.join(folder, kind.__name__ + ".json")
        if not os.path.exists(path):
            kind(size).save(path)
        yield kind.__name__, path, Tokenizer.from_file(path)
