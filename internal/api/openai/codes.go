package openai

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/headway-go/headway/internal/api/httpcall"
)

// precedence is which kind counts if the words of one error mean several.
func precedence() []httpcall.Kind {
	return []httpcall.Kind{httpcall.Quota, httpcall.RateLimit, httpcall.Overload, httpcall.Permanent}
}

// vocabulary is what the words of providers mean: codes, types and reasons, in small letters and without '_', '-' and
// spaces. A number belongs to the one provider that has it in that field.
func vocabulary() map[httpcall.Kind]string {
	return map[httpcall.Kind]string{
		httpcall.Quota: `insufficientquota insufficientuserquota insufficientbalance insufficientbalanceerror
			insufficientcredits billinghardlimitreached billingnotactive exceededcurrentquotaerror arrearage
			accountoverdueerror servicequotaexceededexception allocationquota.freetieronly quotaexhausted paymentrequired 1113
			statuscode.1008 statuscode.2056`,
		httpcall.RateLimit: `ratelimitexceeded ratelimiterror ratelimited ratelimit ratelimitreached
			ratelimitreachederror userratelimitexceeded requestlimitexceeded limitexceeded throttling
			throttlingexception throttlingerror throttling.ratequota throttling.burstrate throttling.allocationquota
			throttling.user throttled toomanyrequests toomanyrequestsexception resourceexhausted
			rpmlimitexceeded tpmlimitexceeded 449
			statuscode.1002 statuscode.1039 statuscode.1041 statuscode.2045
			errorcode.4 errorcode.17 errorcode.18 errorcode.19
			errorcode.336501 errorcode.336502 errorcode.336503 336501 336502 336503`,
		httpcall.Overload: `overloaded overloadederror engineoverloaded engineoverloadederror serveroverloaded
			modeloverloaded capacityexceeded unavailable serviceunavailable serviceunavailableerror modelnotready
			modelnotreadyexception modelloading modelcapacityexhausted insufficientsystemresource
			errorcode.2 errorcode.336100 336100`,
		httpcall.Permanent: `invalidrequest invalidrequesterror invalidprompt invalidargument invalidparameter
			validationerror contentpolicyviolation contentfilter datainspectionfailed imagecontentpolicyviolation
			contextlengthexceeded stringabovemaxlength unsupportedparameter unsupportedvalue modelnotfound
			invalidimage invalidimageformat invalidbase64image invalidimageurl imagetoolarge imagetoosmall
			imageparseerror invalidimagemode imagefiletoolarge unsupportedimagemediatype emptyimagefile
			imagefilenotfound
			statuscode.1026 statuscode.1027 statuscode.1042 statuscode.2013
			errorcode.3 errorcode.336001 errorcode.336002 errorcode.336003 errorcode.336006 errorcode.336007
			336001 336002 336003 336006 336007`,
	}
}

// known is the vocabulary by word.
var known = sync.OnceValue(func() map[string]httpcall.Kind { //nolint:gochecknoglobals // a table
	all := map[string]httpcall.Kind{}
	for kind, words := range vocabulary() {
		for word := range strings.FieldsSeq(words) {
			all[word] = kind
		}
	}
	return all
})

// kind is what the words of an error mean; empty if none is known. A number of three digits is a status of HTTP.
func (s Said) kind() (kind httpcall.Kind) {
	if broke(s.Message) {
		return httpcall.Quota
	}
	best := len(precedence())
	marks := s.marks
	if exception := quoted.FindStringSubmatch(s.Message); exception != nil {
		marks = append(slices.Clone(marks), exception[1])
	}
	for _, word := range marks {
		if k, ok := known()[plain(word)]; ok {
			best = min(best, slices.Index(precedence(), k))
		}
	}
	if best < len(precedence()) {
		return precedence()[best]
	}
	for _, word := range s.marks {
		status, err := strconv.Atoi(word)
		if err == nil && status >= http.StatusBadRequest && httpcall.Known(status) {
			return httpcall.KindOf(status, s.Wait > 0)
		}
	}
	return ""
}

// quoted is the name of an error in a message: "An error occurred (ThrottlingException) when calling ..." of boto.
var quoted = regexp.MustCompile(`^An error occurred \((\w+)\)`)

// plain is a word in small letters, without what separates its parts.
func plain(word string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(word))
}

// broke says that a message without a code of its own names an account that is not paid, or at the budget of its owner.
// The words are of DeepSeek, Anthropic, Fireworks, xAI and Gemini.
func broke(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"insufficient balance", "credit balance is too low", "reached your specified api usage limits",
		"reaching the monthly spending limit", "reached its monthly spending limit", "doesn't have any credits",
		"prepayment credits are depleted", "exceeded its monthly spending cap",
	}, func(words string) bool { return strings.Contains(message, words) })
}

// aboveLimit says that a request is above the whole limit of the provider: no wait makes it smaller. OpenAI sends that
// with the status and the code of a request that comes too early. Gateways put words before it.
func (s Said) aboveLimit() bool { return strings.Contains(s.Message, "Request too large for ") }

// errorWord is the word error at the beginning or the end of a finish reason, as in "upstream_error" and "ERROR_LIMIT".
var errorWord = regexp.MustCompile(`(?i)^error|error$`)

// ended says what a finish reason means that is an error; empty for all others, such as length, content_filter, and
// words that are not known.
func ended(reason string) httpcall.Kind {
	if kind := known()[plain(reason)]; kind.Refuses() {
		return kind
	}
	switch plain(reason) {
	case "abort", "aborted", "timeout", "failed", "failure":
		return httpcall.Failed
	}
	if errorWord.MatchString(reason) {
		return httpcall.Failed
	}
	return ""
}
