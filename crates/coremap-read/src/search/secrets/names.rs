//! Secrets recognised by their name or position: assignments, connection strings, URLs, HTTP
//! headers.

use data_encoding::BASE64;

use crate::search::secrets::matches::{SecretMatch, byte_before, is_base64, is_word, prefix_len, suffix_len};
use crate::search::secrets::tokens::mixed;
use crate::words::SecretKind;

/// Maximum lengths of a name and of a value, in characters.
const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 512;

/// Number of characters around a password in which the other fields of its connection string are
/// searched for.
const CONTEXT: usize = 400;

/// Fields of connection strings that name a server.
const SERVERS: [&str; 8] =
    ["server", "data source", "datasource", "host", "hostname", "addr", "address", "network address"];

/// Names that end like those of secrets, but are none.
const NO_SECRETS: [&str; 10] = [
    "publickeytoken",
    "cancellationtoken",
    "nexttoken",
    "pagetoken",
    "continuationtoken",
    "metadatatoken",
    "methodtoken",
    "typetoken",
    "keytoken",
    "synctoken",
];

/// Prefixes of placeholders in documents, templates and messages, in lower case.
const PLACEHOLDERS: [&str; 24] = [
    "password",
    "passwd",
    "secret",
    "token",
    "null",
    "none",
    "true",
    "false",
    "undefined",
    "string",
    "example",
    "changeit",
    "redacted",
    "optional",
    "required",
    "default",
    "your",
    "value",
    "pass:",
    "test_",
    "xxxx",
    "<",
    "hunter_",
    "placeholder",
];

/// Returns the password in the URL whose `://` is at `at`.
pub(super) fn url(text: &[u8], at: usize) -> Option<SecretMatch> {
    let scheme = suffix_len(text, at, 32, |b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'));
    let start = at - scheme;
    let user = text.get(at + 3..)?;
    let stays =
        |b: u8| (b'!'..=b'~').contains(&b) && !matches!(b, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`');
    let name = prefix_len(user, 128, |b| stays(b) && b != b':');
    let password = user.get(name..)?.strip_prefix(b":")?;
    let len = prefix_len(password, 256, stays);
    let host = password.get(len..)?.strip_prefix(b"@")?;
    let host = prefix_len(host, 255, |b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'[' | b':'));
    let value = at + 3 + name + 1..at + 3 + name + 1 + len;
    let secret = text.get(value.clone())?;
    let server = text.get(value.end + 1..value.end + 1 + host)?;
    // RFC 2606.
    let nobody = [&b"example.com"[..], b"example.org", b"example.net"].iter().any(|n| server.starts_with(n));
    let is_fake = nobody || secret == b"pass" || is_placeholder(secret) || user.first() == Some(&b'{');
    let end = value.end + 1 + host;
    (scheme >= 2 && len >= 3 && host > 0 && !is_fake).then_some(SecretMatch {
        kind: SecretKind::UrlPassword,
        at: start..end,
        value,
        checked: false,
    })
}

/// Returns the credentials after `Bearer ` or `Basic ` at `at`.
pub(super) fn credentials(text: &[u8], at: usize) -> Option<SecretMatch> {
    if byte_before(text, at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let word = prefix_len(text.get(at..)?, 8, |b| b != b' ');
    let value = at + word + 1;
    let rest = text.get(value..)?;
    let range = |len| value..value + len;
    let found = |len, checked| SecretMatch {
        kind: SecretKind::HttpCredentials,
        at: at..value + len,
        value: range(len),
        checked,
    };
    if word == "Basic".len() {
        let len = prefix_len(rest, MAX_VALUE, |b| is_base64(b) || b == b'=');
        let decoded = BASE64.decode(rest.get(..len)?).ok()?;
        let pair = decoded.iter().all(|b| (b' '..=b'~').contains(b)) && decoded.iter().skip(1).any(|b| *b == b':');
        return pair.then(|| found(len, true));
    }
    // RFC 6750, 2.1: b64token.
    let len = prefix_len(rest, 4096, |b| is_base64(b) || matches!(b, b'-' | b'.' | b'_' | b'~' | b'='));
    let token = rest.get(..len)?;
    (len >= 20 && mixed(token) && variety(token) >= 10 && !is_placeholder(token)).then(|| found(len, false))
}

/// Returns the value of the header whose `cookie` is at `at`.
pub(super) fn cookie(text: &[u8], at: usize) -> Option<SecretMatch> {
    let name = text.get(at..at + "cookie".len())?;
    let rest = text.get(at + name.len()..)?;
    let quote = prefix_len(rest, 1, |b| b == b'"');
    let colon = rest.get(quote..)?.strip_prefix(b":")?;
    let space = prefix_len(colon, 3, |b| matches!(b, b' ' | b'"'));
    let pairs = colon.get(space..)?;
    let key = prefix_len(pairs, 128, |b| is_word(b) || matches!(b, b'.' | b'$' | b'!' | b'%' | b'~'));
    let value_at = at + name.len() + quote + 1 + space + key + 1;
    let value = pairs.get(key..)?.strip_prefix(b"=")?;
    let len = prefix_len(value, 4096, |b| b.is_ascii_graphic() && !matches!(b, b';' | b'"' | b',' | b'\\' | b'<'));
    let token = value.get(..len)?;
    (key > 0 && len >= 8 && mixed(token) && !is_placeholder(token)).then_some(SecretMatch {
        kind: SecretKind::Cookie,
        at: at..value_at + len,
        value: value_at..value_at + len,
        checked: false,
    })
}

/// Returns the value assigned to a name that ends with the keyword at `word..end`.
pub(super) fn named(text: &[u8], word: usize, end: usize) -> Option<SecretMatch> {
    let in_name = |b: u8| is_word(b) || b == b'.';
    if text.get(end).is_some_and(|b| in_name(*b)) {
        return None;
    }
    let start = word - suffix_len(text, word, MAX_NAME, in_name);
    let name = text.get(start..end)?;
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    let plain: String = lower.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    if NO_SECRETS.iter().any(|n| plain.ends_with(n)) {
        return None;
    }
    let mut at = end;
    let quoted_name = quote(text, &mut at).is_some();
    let before_sign = spaces(text, &mut at);
    let sign = text.get(at).copied().filter(|b| matches!(b, b':' | b'='))?;
    at += 1;
    // `==` compares. `:=`, `=>` and names with `::` are program code.
    if matches!(text.get(at), Some(b'=' | b'>' | b':' | b'~')) {
        return None;
    }
    let behind_sign = spaces(text, &mut at);
    let quotes = quote(text, &mut at);
    let rest = text.get(at..)?;
    let len = match quotes {
        Some(quote) => prefix_len(rest, MAX_VALUE, |b| b != quote && !matches!(b, b'\n' | b'\r' | b'\\')),
        None => prefix_len(rest, MAX_VALUE, |b| {
            b.is_ascii_graphic() && !matches!(b, b';' | b'"' | b'\'' | b',' | b'&' | b'<' | b'>' | b'`' | b'\\')
        }),
    };
    let value = rest.get(..len)?;
    let range = at..at + len;
    if len == 0 || is_placeholder(value) {
        return None;
    }
    let is_password = plain.ends_with("password") || plain.ends_with("passwd") || plain.ends_with("pwd");
    let tight = sign == b'=' && before_sign + behind_sign <= 2 && !quoted_name;
    if is_password && tight && len >= 3 && connects(text, start, range.end) {
        return Some(SecretMatch {
            kind: SecretKind::ConnectionString,
            at: start..range.end,
            value: range,
            checked: false,
        });
    }
    let closed = quotes.is_none_or(|quote| rest.get(len).is_some_and(|b| *b == quote || *b == b'\\'));
    // A 16-digit token is the hash of a public key, which is part of a .NET assembly name.
    if plain == "token" && len == 16 && value.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    // A field with its type.
    let is_type = sign == b':' && quotes.is_none() && value.contains(&b'.') && len < 40;
    let is_key = ["token", "key", "secret"].iter().any(|end| plain.ends_with(end));
    let believed =
        if is_key { is_random(value) && !is_type } else { is_chosen(value, quotes.is_some(), sign, before_sign) };
    // An environment variable's form shows that it is one.
    let variable = !quoted_name
        && quotes.is_none()
        && sign == b'='
        && before_sign + behind_sign == 0
        && name.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
        && name.contains(&b'_')
        && len >= 6
        && value.iter().all(|b| b.is_ascii_alphanumeric() || b"!@#%^*-_+.:/=~?".contains(b))
        && text.get(range.end).is_none_or(|b| matches!(b, b'\n' | b'\r'));
    (closed && (believed || variable)).then_some(SecretMatch {
        kind: SecretKind::NamedSecret,
        at: start..range.end,
        value: range,
        checked: false,
    })
}

/// Skips a quote, which may be escaped. Returns the quote.
fn quote(text: &[u8], at: &mut usize) -> Option<u8> {
    let escaped = usize::from(text.get(*at) == Some(&b'\\'));
    let quote = text.get(*at + escaped).copied().filter(|b| matches!(b, b'"' | b'\''))?;
    *at += escaped + 1;
    Some(quote)
}

/// Skips at most three spaces. Returns their number.
fn spaces(text: &[u8], at: &mut usize) -> usize {
    let n = prefix_len(text.get(*at..).unwrap_or_default(), 3, |b| matches!(b, b' ' | b'\t'));
    *at += n;
    n
}

/// Whether a field that names a server is on the same line as `start..end`.
fn connects(text: &[u8], start: usize, end: usize) -> bool {
    let inside = |b: u8| b.is_ascii_graphic() || b == b' ';
    let from = start - suffix_len(text, start, CONTEXT, inside);
    let to = end + prefix_len(text.get(end..).unwrap_or_default(), CONTEXT, inside);
    let line = String::from_utf8_lossy(text.get(from..to).unwrap_or_default()).to_ascii_lowercase();
    SERVERS.iter().any(|server| {
        line.match_indices(server).any(|(at, _)| {
            let first =
                matches!(byte_before(line.as_bytes(), at), None | Some(b';' | b' ' | b'"' | b'\'' | b'?' | b'&'));
            let behind = line.get(at + server.len()..).unwrap_or_default().trim_start();
            first
                && behind
                    .strip_prefix('=')
                    .is_some_and(|v| v.trim_start().starts_with(|c: char| !";'\"{%$<".contains(c)))
        })
    })
}

/// Whether a value is a placeholder: `%s`, `${NAME}`, `****`, `<password>`.
fn is_placeholder(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return true };
    let lower = String::from_utf8_lossy(value).to_ascii_lowercase();
    matches!(first, b'%' | b'$' | b'{' | b'<' | b'[' | b'(' | b'*' | b'|' | b'?')
        || PLACEHOLDERS.iter().any(|word| lower.starts_with(word))
        || lower.contains("${")
        || lower.contains("{0}")
        || lower.contains("%s")
        || lower.contains("***")
        || variety(value) < 3
}

/// Number of distinct bytes.
fn variety(value: &[u8]) -> usize {
    let mut seen = [false; 256];
    value.iter().for_each(|b| seen[usize::from(*b)] = true);
    seen.iter().filter(|seen| **seen).count()
}

/// Whether the value looks generated: long, of a token's characters, and no sequence of words.
fn is_random(value: &[u8]) -> bool {
    let of_token = |b: &u8| is_base64(*b) || matches!(b, b'_' | b'-' | b'.' | b'~' | b'=' | b'%' | b':');
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    value.len() >= 16
        && value.iter().all(of_token)
        && mixed(value)
        && digits >= 2
        && variety(value) >= 10
        // Excludes constants: words in capitals.
        && (!value.contains(&b'_') || value.iter().any(u8::is_ascii_lowercase))
        && !value.starts_with(b"0x")
        && !value.starts_with(b"/")
        && value.iter().filter(|b| matches!(b, b'.' | b'/' | b':')).count() <= 3
        // Excludes names of types and members: dots between words, and few digits.
        && (digits * 10 >= value.len() || !value.contains(&b'.'))
}

/// Whether the value looks chosen by a person: letters with digits or signs, no program code and no
/// sentence.
fn is_chosen(value: &[u8], quoted: bool, sign: u8, spaces: usize) -> bool {
    let of_program =
        |b: &u8| matches!(b, b'(' | b')' | b'{' | b'}' | b'[' | b']' | b' ' | b'<' | b'>' | b'|' | b',' | b'\t');
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    let digits = value.iter().any(u8::is_ascii_digit);
    let signs = value.iter().any(|b| b"!@#$%^&*+?~".contains(b));
    let last_is_stop = matches!(value.last(), Some(b'.' | b':' | b'='));
    (quoted || (sign == b'=' && spaces == 0))
        && (6..=128).contains(&value.len())
        && letters
        && (digits || signs)
        && !value.iter().any(of_program)
        && (!last_is_stop || digits)
        && !matches!(value.first(), Some(b'/' | b'.' | b'-' | b'@' | b'#' | b'&' | b'='))
        && !value.windows(2).any(|w| matches!(w, b"::" | b"->" | b"//"))
}
