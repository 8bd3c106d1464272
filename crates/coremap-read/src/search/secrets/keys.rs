//! Private keys as PEM blocks (RFC 7468, RFC 9580, and OpenSSH's variant of RFC 4716), and JSON Web Tokens (RFC 7519,
//! 7516).

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::Value;

use crate::search::secrets::matches::{SecretMatch, byte_before, is_base64, is_word, prefix_len};
use crate::words::SecretKind;

/// Maximum length of a block in characters. An RSA key of 16384 bits has 12,700.
const MAX_KEY: usize = 14_000;

/// Minimum length of a truncated key in characters. Less is only the header line, which every crypto library contains.
const MIN_KEY: usize = 48;

/// Maximum length of a token's part in characters.
const MAX_PART: usize = 4096;

/// Minimum length of a signature in characters: a keyed hash of 128 bits.
const MIN_SIGNATURE: usize = 22;

/// Returns the key whose `-----BEGIN ` is at `at`.
pub(super) fn pem(text: &[u8], at: usize) -> Option<SecretMatch> {
    let rest = text.get(at..)?;
    let rest = &rest[..rest.len().min(MAX_KEY)];
    let label = rest.strip_prefix(b"-----BEGIN ")?;
    let label = &label[..prefix_len(label, 40, |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ')];
    if !(label.ends_with(b"PRIVATE KEY") || label == b"PGP PRIVATE KEY BLOCK") {
        return None;
    }
    let body = "-----BEGIN ".len() + label.len();
    let body_at = body + rest.get(body..)?.strip_prefix(b"-----").map(|_| 5)?;
    let behind = rest.get(body_at..)?;
    let end = [b"-----END ", label, b"-----"].concat();
    let close = memchr::memmem::find(behind, &end);
    // If another block starts before the end, this one has no end.
    let next = memchr::memmem::find(behind, b"-----BEGIN ");
    let closed = close.filter(|close| next.is_none_or(|next| *close < next));
    let inner = &behind[..closed.or(next).unwrap_or(behind.len())];
    let (key, len) = letters(inner);
    let whole = closed.is_some();
    if key.len() < MIN_KEY {
        return None;
    }
    let value = at + body_at..at + body_at + len;
    let to = if let Some(close) = closed { at + body_at + close + end.len() } else { value.end };
    let checked = whole && is_key(&key);
    Some(SecretMatch { kind: SecretKind::PrivateKey, at: at..to, value, checked })
}

/// Returns the base64 of a block, and its length in the text. The length includes line ends, which may be written as
/// `\n`, and headers such as `Proc-Type: 4,ENCRYPTED`.
fn letters(inner: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut at, mut len) = (Vec::new(), 0, 0);
    while let Some(&byte) = inner.get(at) {
        let rest = &inner[at..];
        let line = prefix_len(rest, 100, |b| is_base64(b) || b == b'=');
        if line > 0 {
            let behind = rest.get(line).copied();
            if out.is_empty() && matches!(behind, Some(b':' | b'-')) {
                // Skip a header line, however it ends.
                at += prefix_len(rest, 200, |b| !matches!(b, b'\n' | b'\\'));
                continue;
            }
            out.extend_from_slice(&rest[..line]);
            at += line;
            len = at;
        } else if matches!(byte, b'\n' | b'\r' | b' ' | b'\t') {
            at += 1;
        } else if byte == b'\\' && matches!(rest.get(1), Some(b'n' | b'r' | b'/')) {
            at += if rest.get(1) == Some(&b'/') { 1 } else { 2 };
        } else {
            break;
        }
    }
    (out, len)
}

/// Whether base64 decodes. The result may be DER that begins with a sequence (X.690, 8.9), an OpenSSH key
/// (PROTOCOL.key), OpenPGP packets (RFC 9580, 4.2), or encrypted as a whole.
fn is_key(key: &[u8]) -> bool {
    // OpenPGP's checksum follows the padding.
    let end = key.iter().position(|&b| b == b'=').map_or(key.len(), |pad| (pad + 1).next_multiple_of(4));
    key.get(..end).is_some_and(|key| BASE64.decode(key).is_ok_and(|bytes| bytes.len() >= MIN_KEY / 2))
}

/// Returns the token whose `eyJ` is at `at`.
pub(super) fn jwt(text: &[u8], at: usize) -> Option<SecretMatch> {
    if byte_before(text, at).is_some_and(is_word) {
        return None;
    }
    let mut end = at;
    let mut parts: Vec<&[u8]> = Vec::new();
    while parts.len() < 5 {
        let rest = text.get(end..)?;
        let part = &rest[..prefix_len(rest, MAX_PART, is_word)];
        parts.push(part);
        end += part.len();
        if text.get(end) != Some(&b'.') || !text.get(end + 1).is_some_and(|b| is_word(*b) || *b == b'.') {
            break;
        }
        end += 1;
    }
    let header: Value = serde_json::from_slice(&BASE64URL_NOPAD.decode(parts.first()?).ok()?).ok()?;
    header.get("alg")?.as_str()?;
    let encrypted = header.get("enc").is_some_and(Value::is_string);
    let whole = match parts.len() {
        3 => parts[1].len() >= 4 && BASE64URL_NOPAD.decode(parts[1]).is_ok() && parts[2].len() >= MIN_SIGNATURE,
        5 => encrypted && parts[3].len() >= 4 && parts[4].len() >= MIN_SIGNATURE,
        _ => false,
    };
    whole.then(|| SecretMatch::form(SecretKind::Jwt, at..end).checked(true))
}
