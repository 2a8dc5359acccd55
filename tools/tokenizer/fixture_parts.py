"""The parts of tokenizer.json that make_fixtures.py tries out on one small tokenizer."""

GPT2_LIKE = r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(add_prefix_space=False, use_regex=False, trim_offsets=True):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets,
            "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(first_id, *tokens):
    """Added tokens from (content, flags) with ids from `first_id` on; flags: s(ingle word), l, r, n(ormalized), x."""
    return [{"id": first_id + i, "content": content, "single_word": "s" in flags, "lstrip": "l" in flags,
             "rstrip": "r" in flags, "normalized": "n" in flags, "special": "x" in flags}
            for i, (content, flags) in enumerate(tokens)]


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PRE_TOKENIZERS = [
    byte_level(use_regex=True), byte_level(add_prefix_space=True, use_regex=True), byte_level(add_prefix_space=True),
    *(sequence(split(pattern), byte_level()) for pattern in (GPT2_LIKE, LLAMA3, O200K, DEEPSEEK)),
    *(sequence(split(r"[-\s]", behavior, invert), byte_level()) for behavior in BEHAVIORS for invert in (False, True)),
    *(sequence(split("-", behavior, kind="String"), byte_level()) for behavior in BEHAVIORS),
    sequence(split("a.b|*", kind="String"), byte_level()),
    *(sequence(split(pattern, behavior), byte_level()) for behavior in ("Isolated", "Contiguous", "MergedWithNext")
      for pattern in (r"\d", r"\s*", r"x*", r"(?=o)", r"[^\S\n]+", r"o{1,2}?|l{2}", r"(?:l|o)+", r"\p{^L}+", r"\P{N}",
                      r"[a-e一-龥\u0590-\u05ff]+", r"(?i:hello|WORLD)", r"..", r"(?>l+)o", r"\x{1F600}|\x21|\t", r"l++|o*+"
                      r"|e??", r"[\]\[\-^]", r"o{,2}d")),
    sequence({"type": "Digits", "individual_digits": True}, byte_level(use_regex=True)),
    sequence({"type": "Digits", "individual_digits": False}, byte_level()),
    sequence({"type": "WhitespaceSplit"}, byte_level(add_prefix_space=True)),
    sequence(sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+")), split(DEEPSEEK), byte_level()),
]

TEMPLATE = {"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "two", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [500], "tokens": ["<s>"]},
                       "two": {"id": "two", "ids": [3, 4], "tokens": ["$", "%"]}}}
SPECIALS = added(500, ("<s>", "x"), ("</s>", "x"))
MARKS = ["e\u0301 \u1100\u1161\u11a8 か\u3099 Å \u212b ﬁ ½ ǆ", "İSTANBUL ẞ ΑΣ \u1c89\ua7cb\U00010d50", "\u0e33\u0344\u0f73x"]

VARIANTS = {
    "prefix_space": {"pre_tokenizer": byte_level(add_prefix_space=True, use_regex=True), "added_tokens": SPECIALS,
                     "texts": ["<s>a<s> b</s>", "a", " a"]},
    "llama3": {"pre_tokenizer": sequence(split(LLAMA3), byte_level()), "model": {"ignore_merges": True}},
    **{form: {"normalizer": {"type": form}, "texts": MARKS} for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")},
    "normalizer_sequence": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFD"}, {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "o"}, "content": "00"},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Prepend", "prepend": "_"}]},
        "texts": MARKS + ["foo  boo", "   "]},
    "replaced_by_nothing": {"normalizer": {"type": "Replace", "pattern": {"Regex": "[a-z ]+"}, "content": ""},
                            "texts": ["only letters", "A b C"]},
    "normalized_added_tokens": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "added_tokens": added(500, ("Yesterday", "n"), ("DAY", ""), ("e\u0301te", "n"), ("BIG", "nx"), ("<Raw>", "x")),
        "texts": ["YESTERDAY yesterday Yesterday", "DAY day Day MonDAY", "été e\u0301te ETE\u0301", "big BIG <Raw><raw>",
                  "yesterDAY"]},
    "strip_flags": {
        "added_tokens": added(500, ("<l>", "lx"), ("<r>", "rx"), ("<lr>", "lr"), ("  ", "n"), (" ", ""), ("<ln>", "ln"),
                              ("<rn>", "rn")),
        "texts": ["a  <l>  <r>  b", "<r>   <l>", " <lr> <lr> ", "a <ln>\u2003<rn>\n b", "<r> \t<l><rn>  <ln>", "<lr>  ",
                  "<rn>   x   <ln>", "\u0085<l>\u180e<r>\u00a0", "<r>  <r>  "]},
    "single_words": {
        "added_tokens": added(500, ("ing", "s"), ("<s>", "sx"), ("día", "sn"), ("=-", "s"), ("X Y", "slr")),
        "texts": ["ing king ing. king", "_ing ing_ ing1 ing", "a<s>b <s> (<s>)", "el día, mediodía", "a=-b =- c=-", " X Y ",
                  "xX Y", "X Yx", "ing\u0301 ing\u200d \u00b2ing ing\u0660", "ing\U00011de0 ing\U0001e030 ing\u203f"]},
    "overlapping": {"added_tokens": [*added(500, ("abc", "x"), ("ab", ""), ("bcd", ""), ("abcdef", "sx")),
                                     *added(66, ("c", "n"))],
                    "texts": ["abcd", "abcdef", "abcdefg", "xabcdef", "ababcbcd", "abbcd", "cab"]},
    "in_vocabulary": {"added_tokens": [{**added(0, ("!", "x"))[0]}, *added(500, ("new", "x"))],
                      "texts": ["a!new!", "!!"]},
    "template": {"post_processor": TEMPLATE, "added_tokens": SPECIALS},
    "post_processors": {"post_processor": {"type": "Sequence", "processors": [byte_level(), TEMPLATE, byte_level()]},
                        "added_tokens": SPECIALS},
    "roberta": {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 501], "cls": ["<s>", 500],
                                   "trim_offsets": True, "add_prefix_space": False}, "added_tokens": SPECIALS},
    "bert": {"post_processor": {"type": "BertProcessing", "sep": ["</s>", 501], "cls": ["<s>", 500]},
             "added_tokens": SPECIALS},
    "no_decoder": {"decoder": None, "added_tokens": SPECIALS},
    "fuse": {"decoder": {"type": "Fuse"}, "added_tokens": SPECIALS},
    "fuse_byte_level": {"decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, byte_level()]},
                        "added_tokens": added(500, ("日本", "x"))},
    "byte_level_fuse": {"decoder": {"type": "Sequence", "decoders": [byte_level(), {"type": "Fuse"}]},
                        "added_tokens": added(500, ("日本", "x"), ("Ġé", "")), "texts": ["a日本b", "xĠéy"]},
}
