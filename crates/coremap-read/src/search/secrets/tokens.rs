//! Tokens of services, by their documented forms.

use data_encoding::BASE64;

use crate::search::secrets::matches::{SecretMatch, byte_before, is_base64, is_word, prefix_len};
use crate::words::SecretKind;

/// Maximum length in characters of a token without fixed length.
const MAX_TOKEN: usize = 512;

/// Form of a token: `prefix`, then `min` to `max` characters of one class, and no more of that class.
struct Form {
    prefix: &'static str,
    min: usize,
    max: usize,
    of: fn(u8) -> bool,
}

/// Returns the end of the token of this form at `at`.
fn token(text: &[u8], at: usize, form: &Form) -> Option<usize> {
    if byte_before(text, at).is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let rest = text.get(at..)?.strip_prefix(form.prefix.as_bytes())?;
    let len = prefix_len(rest, form.max + 1, form.of);
    // A placeholder repeats one character.
    let first = rest.first()?;
    let filler = rest[..len].iter().filter(|b| *b == first).count() * 2 > len;
    ((form.min..=form.max).contains(&len) && !filler).then_some(at + form.prefix.len() + len)
}

fn base62(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn base32(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7')
}

fn base62_or_line(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// AWS access keys (IAM User Guide, unique identifiers): AKIA is a user's, ASIA a session's.
pub(super) fn aws(text: &[u8], at: usize) -> Option<SecretMatch> {
    let of = |prefix| token(text, at, &Form { prefix, min: 16, max: 16, of: base32 });
    let end = of("AKIA").or_else(|| of("ASIA"))?;
    // Examples in documentation end so.
    let is_placeholder = text.get(at..end)?.ends_with(b"EXAMPLE") || text.get(end).is_some_and(|b| base62_or_line(*b));
    (!is_placeholder).then(|| SecretMatch::form(SecretKind::AwsAccessKey, at..end))
}

/// Tokens of GitHub and npm. Their last six characters are a checksum (github.blog, "Behind GitHub's new
/// authentication token formats", 2021).
pub(super) fn with_checksum(text: &[u8], at: usize) -> Option<SecretMatch> {
    let sorts = [
        ("ghp_", SecretKind::GithubToken),
        ("gho_", SecretKind::GithubToken),
        ("ghu_", SecretKind::GithubToken),
        ("ghs_", SecretKind::GithubToken),
        ("ghr_", SecretKind::GithubToken),
        ("npm_", SecretKind::NpmToken),
    ];
    sorts.into_iter().find_map(|(prefix, kind)| {
        let end = token(text, at, &Form { prefix, min: 36, max: 36, of: base62 })?;
        let summed = text.get(at + prefix.len()..end).is_some_and(has_sum);
        let mixed = mixed(text.get(at + prefix.len()..end)?);
        (summed || mixed).then(|| SecretMatch::form(kind, at..end).checked(summed))
    })
}

/// Whether the last six characters are the CRC-32 of the others, in base 62.
fn has_sum(token: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((random, sum)) = token.split_last_chunk::<6>() else { return false };
    let value = |byte: &u8| DIGITS.iter().position(|d| d == byte).map(|d| d as u64);
    let checksum = sum.iter().try_fold(0u64, |checksum, byte| Some(checksum * 62 + value(byte)?));
    let mut crc = flate2::Crc::new();
    crc.update(random);
    checksum == Some(u64::from(crc.sum()))
}

/// GitHub's fine-grained tokens.
pub(super) fn github_pat(text: &[u8], at: usize) -> Option<SecretMatch> {
    let end = token(text, at, &Form { prefix: "github_pat_", min: 82, max: 82, of: base62_or_line })?;
    (text.get(at + 33) == Some(&b'_')).then(|| SecretMatch::form(SecretKind::GithubToken, at..end))
}

/// GitLab's personal access tokens.
pub(super) fn gitlab(text: &[u8], at: usize) -> Option<SecretMatch> {
    let end = token(text, at, &Form { prefix: "glpat-", min: 20, max: MAX_TOKEN, of: |b| is_word(b) || b == b'.' })?;
    mixed(text.get(at..end)?).then(|| SecretMatch::form(SecretKind::GitlabToken, at..end))
}

/// Slack's tokens: `xox`, a letter, numbers, and a random part.
pub(super) fn slack(text: &[u8], at: usize) -> Option<SecretMatch> {
    if byte_before(text, at).is_some_and(base62) {
        return None;
    }
    let rest = text.get(at..)?;
    let len = prefix_len(rest, MAX_TOKEN, |b| base62(b) || b == b'-');
    let token = std::str::from_utf8(rest.get(..len)?).ok()?;
    let mut parts = token.split('-');
    let letter = parts.next()?.strip_prefix("xox")?;
    let numbers = parts.clone().take_while(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())).count();
    let fits = matches!(letter, "a" | "b" | "e" | "p" | "r" | "s") && numbers > 0 && parts.next_back()?.len() >= 10;
    fits.then(|| SecretMatch::form(SecretKind::SlackToken, at..at + len))
}

/// Stripe's live keys.
pub(super) fn stripe(text: &[u8], at: usize) -> Option<SecretMatch> {
    let of = |prefix| token(text, at, &Form { prefix, min: 16, max: 247, of: base62 });
    let end = of("sk_live_").or_else(|| of("rk_live_"))?;
    mixed(text.get(at + 8..end)?).then(|| SecretMatch::form(SecretKind::StripeKey, at..end))
}

/// Google's API keys.
pub(super) fn google(text: &[u8], at: usize) -> Option<SecretMatch> {
    let end = token(text, at, &Form { prefix: "AIza", min: 35, max: 35, of: is_word })?;
    mixed(text.get(at..end)?).then(|| SecretMatch::form(SecretKind::GoogleApiKey, at..end))
}

/// PyPI's tokens: a macaroon in base64url, with pypi.org or test.pypi.org as its location.
pub(super) fn pypi(text: &[u8], at: usize) -> Option<SecretMatch> {
    let of = |prefix| token(text, at, &Form { prefix, min: 50, max: MAX_TOKEN, of: is_word });
    let end = of("pypi-AgEIcHlwaS5vcmc").or_else(|| of("pypi-AgENdGVzdC5weXBpLm9yZw"))?;
    Some(SecretMatch::form(SecretKind::PypiToken, at..end))
}

/// Keys of Azure storage accounts: 64 bytes in base64.
pub(super) fn azure_key(text: &[u8], at: usize) -> Option<SecretMatch> {
    let value = at + "AccountKey=".len();
    let rest = text.get(value..)?;
    let len = prefix_len(rest, 87, is_base64);
    let padded = rest.get(..88).filter(|key| len == 86 && key.ends_with(b"=="))?;
    let checked = BASE64.decode(padded).is_ok_and(|bytes| bytes.len() == 64 && bytes.iter().any(|b| *b != 0));
    checked.then(|| SecretMatch {
        kind: SecretKind::AzureStorageKey,
        at: at..value + 88,
        value: value..value + 88,
        checked,
    })
}

/// The signature of Azure's shared access signatures: 32 bytes in base64, as in a URL, next to the other fields.
pub(super) fn azure_sas(text: &[u8], at: usize) -> Option<SecretMatch> {
    if byte_before(text, at).is_some_and(base62_or_line) {
        return None;
    }
    let value = at + "sig=".len();
    let rest = text.get(value..)?;
    let in_query = |b: u8| !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'<' | b'>');
    let len = prefix_len(rest, 120, |b| is_base64(b) || matches!(b, b'%' | b'='));
    let start = at - super::matches::suffix_len(text, at, 400, in_query);
    let query = text.get(start..value + len + prefix_len(rest.get(len..)?, 400, in_query))?;
    let has = |field: &[u8]| {
        memchr::memmem::find_iter(query, field)
            .any(|at| matches!(byte_before(query, at), None | Some(b'?' | b'&' | b';')))
    };
    let fields = [&b"sv="[..], b"se=", b"sp=", b"sr="].into_iter().filter(|field| has(field)).count();
    let signature = unescape(rest.get(..len)?)?;
    let checked = BASE64.decode(&signature).is_ok_and(|bytes| bytes.len() == 32);
    let range = value..value + len;
    (fields >= 2 && checked).then_some(SecretMatch {
        kind: SecretKind::AzureSas,
        at: at..range.end,
        value: range,
        checked,
    })
}

/// Decodes percent escapes, such as `%3D` for `=`.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'%' {
            let (digits, behind) = rest.split_first_chunk::<2>()?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Whether text has both digits and letters. Random text does, and words don't.
pub(super) fn mixed(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit) && text.iter().any(u8::is_ascii_alphabetic)
}
