(ns arrowwood.impl.values
  "Names and values between Java and Clojure."
  {:no-doc true}
  (:require
   [arrowwood.impl.arguments :refer [checked-options in-order invalid-argument printable]]
   [clojure.string :as str])
  (:import
   (clojure.lang BigInt MapEntry PersistentArrayMap Ratio)
   (dev.arrowwood Row Schema)
   (dev.arrowwood.types Field Interval Member Type)
   (java.util Date HashMap List Map Map$Entry)))

(set! *warn-on-reflection* true)

;; ---- names ----

(defn text
  "Returns the name of a column, given as a keyword, string or symbol."
  ^String [column]
  (cond
    (string? column) column
    ;; Not `name`: a column may have a slash in its name.
    (keyword? column) (subs (str column) 1)
    (symbol? column) (str column)
    :else (throw (invalid-argument "columns are named by keywords or strings, not " (printable column)))))

(defn texts ^"[Ljava.lang.String;" [columns]
  (into-array String (map text columns)))

(defn keys-of
  "Returns the names of fields as keywords, the keys of rows."
  ^objects [fields]
  (let [names (map #(.name ^Field %) fields)]
    (when-let [duplicate (first (keep (fn [[name n]] (when (< 1 (long n)) name)) (frequencies names)))]
      (throw (invalid-argument "several columns or members are called '" duplicate
               "', so that they can't be keys of a map: select columns by their indexes")))
    (object-array (map keyword names))))

;; ---- from Java ----

(declare value)

(defn- row-map [^objects keys ^objects cells]
  (let [entries (object-array (* 2 (alength keys)))]
    (dotimes [i (alength keys)]
      (aset entries (* 2 i) (aget keys i))
      (aset entries (inc (* 2 i)) (value (aget cells i))))
    (PersistentArrayMap. entries)))

(defn row
  "Converts a row to a map, in the order of the columns."
  [keys ^Row row]
  (row-map keys (.toArray row)))

(defn value
  "Converts a value to Clojure: big integers are BigInt, lists vectors, structs maps, maps vectors of entries (keys may
  occur twice), union members entries, intervals maps."
  [x]
  (cond
    (nil? x) nil
    (string? x) x
    (instance? BigInteger x) (bigint x)
    (number? x) x
    (instance? Row x) (row (keys-of (.fields ^Row x)) x)
    (instance? List x) (mapv value x)
    (instance? Map$Entry x) (MapEntry/create (value (key x)) (value (val x)))
    (instance? Member x) (MapEntry/create (keyword (.name ^Member x)) (value (.value ^Member x)))
    (instance? Interval x) {:months (.months ^Interval x) :days (.days ^Interval x)
                            :nanoseconds (.nanoseconds ^Interval x)}
    :else x))

;; ---- to Java ----

(defn object
  "Converts a value to Java."
  [x]
  (cond
    (instance? BigInt x) (.toBigInteger ^BigInt x)
    (instance? Ratio x) (double x)
    (instance? Date x) (.toInstant ^Date x)
    (keyword? x) (throw (invalid-argument "a keyword is no value: give its name, as by (name " (printable x) ")"))
    (and (map? x) (contains? x :months))
    (let [{:keys [months days nanoseconds]} (checked-options "an interval" [:months :days :nanoseconds] x)]
      (Interval. (int months) (int (or days 0)) (long (or nanoseconds 0))))
    :else x))

(defn java-row
  "Converts a row, which is a map, to Java."
  ^Map [row]
  (let [^Map cells (HashMap.)]
    (run! (fn [[column x]] (.put cells (text column) (object x))) row)
    cells))

;; ---- schemas ----

(defn field-map [^Field field]
  (cond-> {:name (keyword (.name field)) :type (str (.type field))}
    (not (.nullable field)) (assoc :nullable false)
    (seq (.metadata field)) (assoc :metadata (into {} (.metadata field)))))

(defn- type-of ^Type [type]
  (if (instance? Type type)
    type
    (.type ^Field (first (.fields (Schema/parse (str "c: " (text type))))))))

(defn- field ^Field [column]
  (if (map? column)
    (let [{:keys [name type nullable metadata]}
          (checked-options "a column of a schema" [:name :type :nullable :metadata] column)]
      (Field. (text name) (type-of type) (not (false? nullable)) (into {} metadata)))
    (let [[name type] column
          [_ plain not-null] (re-matches #"(.*?)( not null)?" (text type))]
      (Field. (text name) (type-of plain) (nil? not-null) {}))))

(defn schema
  "Returns the schema for a text, for fields as maps, or for pairs of names and types."
  ^Schema [columns]
  (cond
    (instance? Schema columns) columns
    (string? columns) (Schema/parse columns)
    :else (Schema/of ^"[Ldev.arrowwood.types.Field;" (into-array Field (map field (in-order "a schema" columns))))))

(defn keyword-of
  "Returns the keyword that names a constant of an enum."
  [^Enum constant]
  (keyword (str/replace (str/lower-case (.name constant)) "_" "-")))

(defn enum
  "Returns the constant of an enum that a keyword names."
  [^Class class key]
  (let [constants (.getEnumConstants class)]
    (or (first (filter #(= key (keyword-of %)) constants))
        (throw (invalid-argument (printable key) " is none of " (str/join ", " (map keyword-of constants)))))))
