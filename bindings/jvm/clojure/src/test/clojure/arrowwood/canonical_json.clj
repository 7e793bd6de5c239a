(ns arrowwood.canonical-json
  "Encodes values as JSON data in the way of examples/samples, which every language can do without rounding: integers,
  decimals and times are strings with all their digits."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.impl.values :as values]
   [clojure.string :as str])
  (:import
   (clojure.lang BigInt)
   (dev.arrowwood.types Field Type Type$Dictionary Type$Duration Type$FixedList Type$Interval Type$ListOf Type$MapOf Type$RunEndEncoded Type$Struct Type$Time Type$Timestamp Type$Union Type$Unit)
   (java.time Duration Instant LocalDate LocalDateTime LocalTime ZoneOffset)
   (java.util HexFormat)))

(defn value-type
  "Returns the type of a column's values, without dictionaries and run-end encoding."
  ^Type [type]
  (condp instance? type
    Type$Dictionary (recur (.values ^Type$Dictionary type))
    Type$RunEndEncoded (recur (.type (.values ^Type$RunEndEncoded type)))
    type))

(defn- encode-bytes [bytes] (str "0x" (.formatHex (HexFormat/of) bytes)))

(defn- time-kind
  "Returns the first word of an encoded time, or nil for a type of other values."
  [type]
  (condp instance? type
    Type$Time "time"
    Type$Timestamp "timestamp"
    Type$Duration "duration"
    nil))

(defn- time-unit ^Type$Unit [type]
  (condp instance? type
    Type$Time (.unit ^Type$Time type)
    Type$Timestamp (.unit ^Type$Timestamp type)
    Type$Duration (.unit ^Type$Duration type)))

(defn- zone-suffix [type]
  (let [zone (when (instance? Type$Timestamp type) (.orElse (.zone ^Type$Timestamp type) nil))]
    (if zone (str " " zone) "")))

(defn- total-nanos [seconds nanos] (+' (*' seconds 1000000000) nanos))

(defn- encode-time
  "Encodes a time as a count of its unit, with a question mark if it isn't a multiple of the unit."
  [type nanos]
  (let [unit (time-unit type)
        nanos-per-unit (quot 1000000000 (.perSecond unit))
        inexact (if (zero? (rem nanos nanos-per-unit)) "" "?")]
    (str (time-kind type) " " (quot nanos nanos-per-unit) inexact unit (zone-suffix type))))

(declare encode)

(defn- encode-struct [fields value]
  (into {}
        (map (fn [^Field field]
               [(.name field) (encode ((keyword (.name field)) value) (.type field))]))
        fields))

(defn- encode-map [^Type$MapOf type value]
  (mapv (fn [entry]
          [(encode (key entry) (.type (.key type)))
           (encode (val entry) (.type (.value type)))])
        value))

(defn- encode-union [^Type$Union type value]
  (let [member-name (values/text (key value))
        ^Field member (first (filter #(= member-name (.name ^Field %)) (.members type)))]
    {(.name member) (encode (val value) (.type member))}))

(defn encode
  "Encodes a value of a column of the given type."
  [value column-type]
  (let [type (value-type column-type)]
    (cond
      (nil? value) nil
      (boolean? value) value
      ;; A time that java.time can't represent is a count of its unit.
      (and (int? value) (time-kind type)) (str (time-kind type) " " value (time-unit type) (zone-suffix type))
      (or (int? value) (instance? BigInt value)) (str value)
      (float? value) (when (Double/isFinite value) (double value))
      (decimal? value) (str (.unscaledValue ^BigDecimal value) "e-" (.scale ^BigDecimal value))
      (string? value) value
      (bytes? value) (encode-bytes value)
      (uuid? value) (str "0x" (str/replace (str value) "-" ""))
      (instance? LocalDate value) (str "date " (.toEpochDay ^LocalDate value))
      (instance? LocalTime value) (encode-time type (.toNanoOfDay ^LocalTime value))
      (instance? Instant value)
      (encode-time type (total-nanos (.getEpochSecond ^Instant value) (.getNano ^Instant value)))
      (instance? LocalDateTime value)
      (encode-time type (total-nanos (.toEpochSecond ^LocalDateTime value ZoneOffset/UTC)
                                     (.getNano ^LocalDateTime value)))
      (instance? Duration value)
      (encode-time type (total-nanos (.getSeconds ^Duration value) (.getNano ^Duration value)))
      (instance? Type$Interval type) (str/join " " ["interval" (:months value) (:days value) (:nanoseconds value)])
      (instance? Type$Struct type) (encode-struct (.members ^Type$Struct type) value)
      (instance? Type$Union type) (encode-union type value)
      (instance? Type$MapOf type) (encode-map type value)
      (instance? Type$ListOf type) (mapv #(encode % (.type (.item ^Type$ListOf type))) value)
      (instance? Type$FixedList type) (mapv #(encode % (.type (.item ^Type$FixedList type))) value)
      :else (throw (AssertionError. (str (class value) " of " type))))))

(defn fields
  "Returns the fields of a dataset's schema."
  [ds]
  (.fields (.schema (aw/java-dataset ds))))

(defn encode-rows
  "Encodes the rows of a dataset, each as a vector of its cells."
  [ds]
  (let [encode-row (fn [row]
                     (mapv (fn [^Field field] (encode ((keyword (.name field)) row) (.type field)))
                           (fields ds)))]
    (mapv encode-row ds)))
