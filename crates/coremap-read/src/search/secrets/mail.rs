//! E-mail addresses.

use crate::search::secrets::matches::{SecretMatch, byte_before, is_word, prefix_len, suffix_len};
use crate::words::SecretKind;

/// Minimum length of an address in characters.
const MIN_ADDRESS: usize = 8;

/// Top-level domains of more than two letters in which people have addresses.
const DOMAINS: &str = "com org net edu gov mil int info biz name pro dev app cloud online site tech xyz email jobs mobi \
    travel asia cat coop aero tel shop store blog news agency company group team work life live world today solutions \
    systems services software network digital bank health law legal consulting";

/// Country domains: ISO 3166-1, with eu, uk and su. Those that are also file extensions (py, rs, sh, so) are left out.
/// md, ps and pl stay: the first two are rare after an @, and people live in Poland.
const COUNTRIES: &str = "ad ae af ag ai al am ao ar at au az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cd cf cg ch \
    ci ck cl cm cn co cr cu cv cw cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gb gd ge gf gg gh gi gl gm \
    gn gp gq gr gt gu gw gy hk hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc \
    li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na nc ne nf ng ni nl no np nr nu \
    nz om pa pe pf pg ph pk pl pm pn pr ps pt pw qa re ro ru rw sa sb sc sd se sg si sk sl sm sn sr st su sv sx sy sz \
    tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw";

/// Domains that belong to nobody: RFC 2606, and placeholders of GitHub and of libraries.
const NOBODY: [&str; 7] =
    ["example.com", "example.org", "example.net", "domain.com", "email.com", "host.com", "users.noreply.github.com"];

/// Returns the address whose `@` is at `at`.
pub(super) fn address(text: &[u8], at: usize) -> Option<SecretMatch> {
    let of_name = |b: u8| is_word(b) || matches!(b, b'.' | b'+' | b'%');
    let name = suffix_len(text, at, 64, of_name);
    let start = at - name;
    let first = text.get(start)?;
    if name == 0 || !first.is_ascii_alphanumeric() || byte_before(text, at) == Some(b'.') {
        return None;
    }
    let rest = text.get(at + 1..)?;
    let mut len = prefix_len(rest, 255, |b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    // Exclude the end of a sentence, and dashes at the end.
    while len > 0 && !rest.get(len - 1).is_some_and(u8::is_ascii_alphanumeric) {
        len -= 1;
    }
    let domain = std::str::from_utf8(rest.get(..len)?).ok()?.to_ascii_lowercase();
    let (labels, top) = domain.rsplit_once('.')?;
    let known = if top.len() == 2 { COUNTRIES } else { DOMAINS };
    let sound = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    let fits = known.split_ascii_whitespace().any(|t| t == top)
        && labels.split('.').all(sound)
        && labels.len() >= 2
        && labels.bytes().any(|b| b.is_ascii_alphabetic())
        && text.get(start..at)?.iter().any(u8::is_ascii_alphabetic)
        && text.get(start..at)? != b"git"
        && !matches!(rest.get(len), Some(b'@' | b'_' | b'('));
    let nobody = NOBODY.iter().any(|n| domain == *n || domain.strip_suffix(n).is_some_and(|d| d.ends_with('.')));
    let end = at + 1 + len;
    (fits && !nobody && end - start >= MIN_ADDRESS).then(|| SecretMatch::form(SecretKind::EmailAddress, start..end))
}
