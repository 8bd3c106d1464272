use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::RegionRow;

/// `whatis`: everything known of one address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatisReport {
    /// The address.
    pub address: Addr,
    /// The region that holds it; `null` where nothing is mapped.
    pub region: Option<RegionRow>,
    /// Bytes from the start of the region.
    pub offset: Option<u64>,
    /// Evidence for the label.
    pub evidence: Option<String>,
    /// Section of a module, thread and distance from its SP, …
    pub place: Option<String>,
    /// The code it is of: a method, a native symbol, a stub.
    pub code: Option<String>,
    /// The block of malloc that it is in.
    pub block: Option<BlockRow>,
    /// Claims that lost here.
    pub losers: Vec<ClaimRow>,
    /// Whether its byte can be read, or why not.
    pub readable: String,
    /// Nearest regions, where nothing is mapped.
    pub neighbours: Vec<RegionRow>,
    /// Bytes from the address on, in hexadecimal, where that was asked for.
    pub bytes: Option<String>,
}

/// A claim on the address that did not win.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Kind it claims.
    pub kind: Kind,
    /// Which one.
    pub detail: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// Its evidence.
    pub evidence: String,
}

/// A block of malloc.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BlockRow {
    /// What malloc returned.
    pub start: Addr,
    /// Bytes that the program can use.
    pub size: u64,
    /// Whether it is in use.
    pub used: bool,
}
