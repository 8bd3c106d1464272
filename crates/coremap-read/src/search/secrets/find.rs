//! Finds secrets in a text. One automaton finds the keywords, and each candidate is checked.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};

use crate::search::secrets::matches::{SecretMatch, without_overlaps};
use crate::search::secrets::{keys, mail, names, numbers, tokens};

/// Checks for a secret at a keyword, given the text and the start and end of the keyword.
type Check = fn(&[u8], usize, usize) -> Option<SecretMatch>;

/// Keywords, in any letter case, with the check of the secret that they may be part of.
const WORDS: &[(&[&str], Check)] = &[
    (&["-----begin "], |text, at, _| keys::pem(text, at)),
    (&["eyj"], |text, at, _| keys::jwt(text, at)),
    (&["akia", "asia"], |text, at, _| tokens::aws(text, at)),
    (&["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"], |text, at, _| tokens::with_checksum(text, at)),
    (&["github_pat_"], |text, at, _| tokens::github_pat(text, at)),
    (&["glpat-"], |text, at, _| tokens::gitlab(text, at)),
    (&["xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"], |text, at, _| tokens::slack(text, at)),
    (&["sk_live_", "rk_live_"], |text, at, _| tokens::stripe(text, at)),
    (&["aiza"], |text, at, _| tokens::google(text, at)),
    (&["pypi-age"], |text, at, _| tokens::pypi(text, at)),
    (&["accountkey="], |text, at, _| tokens::azure_key(text, at)),
    (&["sig="], |text, at, _| tokens::azure_sas(text, at)),
    (&["://"], |text, at, _| names::url(text, at)),
    (&["bearer ", "basic "], |text, at, _| names::credentials(text, at)),
    (&["cookie"], |text, at, _| names::cookie(text, at)),
    (
        &[
            "password",
            "passwd",
            "passphrase",
            "pwd",
            "_pass",
            "secret",
            "secret_key",
            "secretkey",
            "secret-key",
            "token",
            "api_key",
            "apikey",
            "api-key",
            "access_key",
            "accesskey",
            "access-key",
            "private_key",
            "privatekey",
            "account_key",
            "encryption_key",
            "signing_key",
        ],
        names::named,
    ),
    (&["@"], |text, at, _| mail::address(text, at)),
];

pub(super) struct Finder {
    words: AhoCorasick,
    /// Check of each keyword.
    checks: Vec<Check>,
}

impl Finder {
    /// Compiles the automaton. An error means that the keyword list is invalid.
    pub(super) fn new() -> Result<Finder, BuildError> {
        let all = || WORDS.iter().flat_map(|(words, check)| words.iter().map(move |word| (*word, *check)));
        let words = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(all().map(|(word, _)| word))?;
        Ok(Finder { words, checks: all().map(|(_, check)| check).collect() })
    }

    /// Returns all secrets in `text`, by position.
    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretMatch> {
        let mut out = Vec::new();
        for word in self.words.find_overlapping_iter(text) {
            let check = self.checks.get(word.pattern().as_usize());
            out.extend(check.and_then(|check| check(text, word.start(), word.end())));
        }
        numbers::numbers(text, &mut out);
        without_overlaps(out)
    }
}
