#!/usr/bin/env python3
"""Asks Hugging Face tokenizers about every code point.

    sweep_unicode.py --fixture unicode.json     what each class and normal form is, for tests/tokenizer
    sweep_unicode.py --tables                   the lists of src/zp/tokenizer/unicode_data.cpp: where the installed
                                                libpcre2 and libutf8proc differ from that

Needs the package `tokenizers`; --tables also the two libraries.
"""
import argparse
import bisect
import ctypes
import json
import pathlib
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CATEGORIES = ("L Lu Ll Lt Lm Lo M Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co").split()
POINTS = [point for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]
ALL = "".join(map(chr, POINTS))
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
CONTEXTS = ("%s", "a%s\u0334", "a\u0345%s", "가%s\u0301")  # alone; before and behind marks; behind what it might join
BLOCK = 4096


def ranges(points):
    result = []
    for point in sorted(points):
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def matched(pattern):
    """The code points that a pattern matches for Hugging Face."""
    rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(ALL)
    return set(POINTS).difference(*(POINTS[begin:end] for _, (begin, end) in rest))


def numeric():
    """What the pre-tokenizer Digits calls a digit."""
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str("a".join(ALL))
    return {ord(piece) for piece, _ in pieces if len(piece) == 1 and piece != "a"}


def word_characters():
    """What a single_word token must not touch."""
    tokenizer = Tokenizer(models.BPE({"\u3042": 0}, []))
    tokenizer.add_tokens([AddedToken("T", single_word=True, normalized=False)])
    known = (ord("T"), 0x3042)
    return {point for point in POINTS if point in known or not tokenizer.encode("T" + chr(point)).ids}


def normal_form_checksums(form):
    """CRC-32 of the normalized contexts, a block of code points each."""
    normalize = getattr(normalizers, form)().normalize_str
    sums = []
    for begin in range(0, 0x110000, BLOCK):
        text = "".join(normalize(context % chr(point)) for point in range(begin, begin + BLOCK)
                       if not 0xD800 <= point <= 0xDFFF for context in CONTEXTS)
        sums.append(zlib.crc32(text.encode()))
    return sums


def lower_case_checksums():
    normalize = normalizers.Lowercase().normalize_str
    return [zlib.crc32("".join(normalize(chr(point)) for point in range(begin, begin + BLOCK)
                               if not 0xD800 <= point <= 0xDFFF).encode()) for begin in range(0, 0x110000, BLOCK)]


def fixture():
    return {
        "classes": {**{f"\\p{{{name}}}": ranges(matched(f"\\p{{{name}}}")) for name in CATEGORIES},
                    **{name: ranges(matched(name)) for name in ("\\s", "\\d")}},
        "numeric": ranges(numeric()), "word": ranges(word_characters()),
        "contexts": CONTEXTS, "block": BLOCK,
        "normal_forms": {form: normal_form_checksums(form) for form in FORMS}, "lower_case": lower_case_checksums()}


class Pcre2:
    def __init__(self):
        self.library = ctypes.CDLL("libpcre2-8.so.0")
        for name in ("compile", "match_data_create"):
            getattr(self.library, f"pcre2_{name}_8").restype = ctypes.c_void_p
        self.library.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
        self.subject = ALL.encode()
        self.offsets = [0]
        for character in ALL:
            self.offsets.append(self.offsets[-1] + len(character.encode()))

    def matched(self, pattern):
        error, at, utf, no_check = ctypes.c_int(), ctypes.c_size_t(), 0x00080000, 0x40000000
        source = (pattern + "++").encode()
        code = self.library.pcre2_compile_8(source, ctypes.c_size_t(len(source)), utf, ctypes.byref(error),
                                            ctypes.byref(at), None)
        self.library.pcre2_jit_compile_8(ctypes.c_void_p(code), 1)
        data = self.library.pcre2_match_data_create_8(1, None)
        pair = self.library.pcre2_get_ovector_pointer_8(ctypes.c_void_p(data))
        points, start = set(), 0
        while self.library.pcre2_match_8(ctypes.c_void_p(code), self.subject, ctypes.c_size_t(len(self.subject)),
                                         ctypes.c_size_t(start), no_check, ctypes.c_void_p(data), None) > 0:
            points.update(POINTS[bisect.bisect_left(self.offsets, pair[0]):bisect.bisect_left(self.offsets, pair[1])])
            start = pair[1]
        return points


def utf8proc_normalizer(form):
    library, libc = ctypes.CDLL("libutf8proc.so.2"), ctypes.CDLL(None)
    library.utf8proc_map.restype = ctypes.c_ssize_t
    options = 2 | {"NFC": 8, "NFD": 16, "NFKC": 8 | 4, "NFKD": 16 | 4}[form]

    def normalize(text):
        source, mapped = text.encode(), ctypes.c_void_p()
        size = library.utf8proc_map(source, ctypes.c_ssize_t(len(source)), ctypes.byref(mapped), options)
        result = ctypes.string_at(mapped, size).decode()
        libc.free(mapped)
        return result
    return normalize


def inert_points():
    points = {0x11930}  # whole by itself, but the second half of U+11938
    for form in FORMS:
        theirs, ours = getattr(normalizers, form)().normalize_str, utf8proc_normalizer(form)
        for point in POINTS:
            if any(theirs(context % chr(point)) != ours(context % chr(point)) for context in CONTEXTS):
                points.add(point)
    return points


def print_list(name, points):
    items = [f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges(points)]
    print(f"constexpr CodePointRange {name}[] = {{{', '.join(items)}}};\n")


def tables():
    pcre2 = Pcre2()
    for name in [*CATEGORIES, "Mn"]:
        theirs, ours = matched(f"\\p{{{name}}}"), pcre2.matched(f"\\p{{{name}}}")
        if len(name) == 2 and theirs - ours:
            print_list(f"k{name}", theirs - ours)
        if ours - theirs:
            print(f"// only PCRE2 has in {name}: {ranges(ours - theirs)}\n")
    print_list("kWhiteSpace", matched("\\s"))
    print_list("kExtraNumeric", numeric() - matched("\\p{N}"))
    print_list("kExtraWord", word_characters() - pcre2.matched("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]"))
    print_list("kInert", inert_points())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixture", type=pathlib.Path)
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    if arguments.fixture:
        arguments.fixture.write_text(json.dumps(fixture(), ensure_ascii=True, separators=(",", ":")) + "\n")
    if arguments.tables:
        tables()


if __name__ == "__main__":
    main()
