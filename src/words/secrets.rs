//! What should not leave the house with a core.

use super::words;

words! {
    /// What a place in memory holds that somebody may not want to hand on. Of two that overlap the first of this list is told.
    #[derive(Default)]
    pub enum SecretKind {
        /// A private key as a PEM block: RSA, EC, PKCS #8, OpenSSH, PGP; encrypted ones too.
        #[default]
        PrivateKey = "private-key",
        /// A JSON Web Token: three parts in base64url (five where it is encrypted), the first of which is JSON that has `alg`.
        Jwt = "jwt",
        /// The id of an access key of AWS (`AKIA…`, `ASIA…`), beside which the key itself is likely to stand.
        AwsAccessKey = "aws-access-key",
        /// A token of GitHub (`ghp_…`, `gho_…`, `ghu_…`, `ghs_…`, `ghr_…`, `github_pat_…`).
        GithubToken = "github-token",
        /// A personal token of GitLab (`glpat-…`).
        GitlabToken = "gitlab-token",
        /// A token of Slack (`xoxb-…` and the like).
        SlackToken = "slack-token",
        /// A live key of Stripe (`sk_live_…`, `rk_live_…`).
        StripeKey = "stripe-key",
        /// An API key of Google (`AIza…`).
        GoogleApiKey = "google-api-key",
        /// A token of npm (`npm_…`).
        NpmToken = "npm-token",
        /// A token of PyPI (`pypi-…`).
        PypiToken = "pypi-token",
        /// A key of an Azure storage account (`AccountKey=…`).
        AzureStorageKey = "azure-storage-key",
        /// The signature of a shared access signature of Azure (`sig=…` beside `sv=` or `se=`).
        AzureSas = "azure-sas",
        /// A password in a connection string, beside a server, host or user.
        ConnectionString = "connection-string",
        /// A password in a URL: `scheme://user:password@host`.
        UrlPassword = "url-password",
        /// Credentials of HTTP: `Bearer …`, or `Basic …` that decodes to a name and a password.
        HttpCredentials = "http-credentials",
        /// A value in an HTTP header `Cookie` or `Set-Cookie`.
        Cookie = "cookie",
        /// A value that a name such as `password`, `secret`, `token` or `api_key` is given.
        NamedSecret = "named-secret",
        /// An account's number, IBAN, whose check digits are right.
        Iban = "iban",
        /// The number of a payment card: a known prefix, its length, and the check digit is right.
        CardNumber = "card-number",
        /// An e-mail address.
        EmailAddress = "email-address",
        /// An entry of the process's environment; whether it is a secret is not looked at.
        Environment = "environment",
        /// An argument of the program after its name; whether it is a secret is not looked at.
        Argument = "argument",
    }
}

words! {
    /// What may come of it where somebody else reads it.
    #[derive(Default)]
    pub enum SecretSeverity {
        /// It opens something by itself.
        Critical = "critical",
        /// It opens something for a while, or looks as if it did; money.
        High = "high",
        /// It is about a person.
        Personal = "personal",
        /// It may be anything: to be looked at.
        #[default]
        Look = "look",
    }
}

impl SecretKind {
    /// What may come of it.
    pub const fn severity(self) -> SecretSeverity {
        match self {
            SecretKind::PrivateKey
            | SecretKind::AwsAccessKey
            | SecretKind::GithubToken
            | SecretKind::GitlabToken
            | SecretKind::SlackToken
            | SecretKind::StripeKey
            | SecretKind::GoogleApiKey
            | SecretKind::NpmToken
            | SecretKind::PypiToken
            | SecretKind::AzureStorageKey
            | SecretKind::ConnectionString
            | SecretKind::UrlPassword => SecretSeverity::Critical,
            SecretKind::Jwt
            | SecretKind::AzureSas
            | SecretKind::HttpCredentials
            | SecretKind::Cookie
            | SecretKind::NamedSecret
            | SecretKind::CardNumber => SecretSeverity::High,
            SecretKind::Iban | SecretKind::EmailAddress => SecretSeverity::Personal,
            SecretKind::Environment | SecretKind::Argument => SecretSeverity::Look,
        }
    }
}
